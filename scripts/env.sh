# Makes .venv with the pinned versions on first use; sourced by the other scripts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "holdstrue needs Python 3.11 or newer; set PYTHON to one (found: $("$python" --version 2>&1 || echo none))" >&2
  exit 2
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  echo "this Python has no venv module; on Debian: apt-get install python3-venv" >&2
  exit 2
fi

stamp=.venv/.installed
wanted=$(cat requirements.lock pyproject.toml | cksum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  echo "setting up .venv ..." >&2
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
  echo "$wanted" > "$stamp"
fi
