# shellcheck shell=bash disable=SC2034,SC2086,SC2154 # variables are shared with scripts/test; lists are words
# What the steps need beside Go. Sourced by scripts/test.

# needs_of prints the commands and files that a step can be left out for, each with the Debian packages that have it.
needs_of() {
  local every="guardctl/all lab"
  case $1 in
    browser) echo "chromium chromium fonts-dejavu-core" ;;
    models) echo "spin spin" ;;
    test | newest)
      ! has_chosen $every fence/pgxtx jobs/river locker/postgreslocker || echo "initdb postgresql"
      ! has_chosen locker/postgreslocker || echo "pgbouncer pgbouncer"
      ! has_chosen $every locker/mysqllocker || echo "mariadbd mariadb-server"
      ! has_chosen $every locker/zookeeperlocker ||
        echo "/usr/share/java/zookeeper.jar libzookeeper-java default-jre-headless"
      ;;
  esac
}

# need_always makes sure of what no run can do without: Go, a C compiler for the race detector, and Redis.
need_always() {
  command -v go >/dev/null || { echo "scripts/test needs Go 1.25 or newer: https://go.dev/dl/" >&2; exit 1; }
  local line
  for line in "$(go env CC) gcc libc6-dev" "redis-server redis-server"; do
    need $line || { echo "scripts/test cannot run without ${line%% *}, please install it: $lacking" >&2; exit 1; }
  done
}

# need makes sure that command or file $1 is there, and installs the Debian packages behind it if need be. If it fails,
# lacking names the command that installs them.
need() {
  local cmd=$1 as=""
  shift
  installed "$cmd" && return
  lacking="apt-get install $*"
  ((EUID == 0)) || as="sudo -n"
  command -v apt-get >/dev/null && $as true 2>/dev/null || return 1
  echo "$cmd is missing: installing $*"
  $as apt-get update -qq || true # a stale list may do
  $as env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" || true
  installed "$cmd"
}

# installed looks in PATH, and where Debian keeps servers. A path that begins with / is that of a file.
installed() {
  [[ $1 != /* ]] || { [[ -e $1 ]]; return; }
  PATH="$PATH:/usr/sbin$(printf ':%s' /usr/lib/postgresql/*/bin)" \
    command -v "${1/#chromium/google-chrome}" "$1" >/dev/null
}
