# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with scripts/test
# What the steps need beside Go. Sourced by scripts/test.

# needs_of prints the commands and files that a step can be left out for, each with the Debian packages that have it.
needs_of() {
  case $1 in
    test | newest)
      local all=0
      if is_chosen guardctl/all; then all=1; fi
      if ((all)) || is_chosen jobs/river || is_chosen locker/postgreslocker; then echo "initdb postgresql"; fi
      if is_chosen locker/postgreslocker; then echo "pgbouncer pgbouncer"; fi
      if ((all)) || is_chosen locker/mysqllocker; then echo "mariadbd mariadb-server"; fi
      if ((all)) || is_chosen locker/zookeeperlocker; then
        echo "/usr/share/java/zookeeper.jar libzookeeper-java default-jre-headless"
      fi
      ;;
    sql) printf '%s\n' "initdb postgresql" "mariadbd mariadb-server" ;;
    browser) printf '%s\n' "chromium chromium fonts-dejavu-core" ;;
    models) printf '%s\n' "spin spin" ;;
  esac
}

# need_always makes sure of what no run can do without: Go, a C compiler for the race detector, and Redis.
need_always() {
  command -v go >/dev/null || { echo "scripts/test needs Go 1.25 or newer: https://go.dev/dl/" >&2; exit 1; }
  local line
  for line in "$(go env CC) gcc libc6-dev" "redis-server redis-server"; do
    # shellcheck disable=SC2086 # a command and its packages
    need $line || { echo "scripts/test cannot run without ${line%% *}, please install it: $lacking" >&2; exit 1; }
  done
}

# need makes sure that command or file $1 is there, and installs the Debian packages behind it if need be. If it fails, lacking
# names the command that installs them.
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
  local other=$1
  [[ $1 != /* ]] || { [[ -e $1 ]]; return; }
  [[ $1 != chromium ]] || other=google-chrome
  PATH="$PATH:/usr/sbin$(printf ':%s' /usr/lib/postgresql/*/bin)" command -v "$1" "$other" >/dev/null
}
