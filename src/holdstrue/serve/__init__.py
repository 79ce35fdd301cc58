"""States shown live to browsers and programs; what serves them (starlette, uvicorn) is imported when it starts."""
