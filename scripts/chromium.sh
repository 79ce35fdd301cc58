# Gets Chromium for the tests of the pages where that is allowed; never fails. Sourced after env.sh.
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null &&
  ! install_packages chromium; then
  echo "the browser tests will be skipped: they need chromium, which only root or sudo with apt can install here" >&2
fi
