# Gets PostgreSQL and its JDBC driver for the tests where that is allowed; never fails. Sourced after env.sh.
wanted=()
if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && ! command -v postgres >/dev/null; then
  wanted+=(postgresql)
fi
if [ ! -f /usr/share/java/postgresql.jar ]; then
  wanted+=(libpostgresql-jdbc-java)
fi
if [ ${#wanted[@]} != 0 ] && ! install_packages "${wanted[@]}"; then
  echo "the JDBC test will be skipped: it needs ${wanted[*]}, which only root or sudo with apt can install here" >&2
fi
