# Makes .venv with the versions and files of requirements.lock on first use; sourced by the other scripts.
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
  pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" --require-hashes -r requirements.lock
  # the lock holds what builds the package, too
  "${pip[@]}" --no-deps --no-build-isolation --editable .
  echo "$wanted" > "$stamp"
fi

# Installs Debian packages where that needs no question; fails elsewhere.
install_packages() {
  local as_root=()
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || return 1
    as_root=(sudo -n)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  echo "installing $* ..." >&2
  "${as_root[@]}" apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1 && return
  # the list of packages may be old
  "${as_root[@]}" apt-get update -qq >/dev/null 2>&1 &&
    "${as_root[@]}" apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# Whether a folder is the home of a Java that Spark runs on.
java_fits() {
  local version
  [ -n "$1" ] && [ -x "$1/bin/java" ] || return 1
  version=$("$1/bin/java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p')
  [ "${version:-0}" -ge 17 ]
}

find_java() {
  local home on_path
  on_path=$(readlink -f "$(command -v java)" 2>/dev/null) || on_path=
  for home in "${JAVA_HOME:-}" "${on_path%/bin/java}" /usr/lib/jvm/*; do
    if java_fits "$home"; then
      export JAVA_HOME=$home
      return
    fi
  done
  return 1
}

# Sets JAVA_HOME to a Java 17 or newer; called by the scripts that start Spark.
need_java() {
  find_java && return
  install_packages openjdk-17-jre-headless || install_packages default-jre-headless || true
  find_java && return
  echo "Spark needs Java 17 or newer; install it (on Debian: apt-get install openjdk-17-jre-headless)" >&2
  echo "or set JAVA_HOME to the folder of one" >&2
  exit 2
}
