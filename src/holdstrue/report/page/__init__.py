"""The look and the program of the report page: `page.css` and `page.js`, put into it as they are."""
