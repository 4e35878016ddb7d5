# shellcheck shell=bash disable=SC2034,SC2046,SC2086,SC2154 # variables are shared with scripts/test; lists are words
# The modules of the tree, what steps need beside Go, running them, and the table at the end. Sourced by scripts/test.

small_modules=(. guardctl guardgen middleware/grpc) # those of the small set
browser_module=examples/flashsale/browsertest        # a step of its own has what it needs
lab_module=lab # judges how soon a lock is given: nothing runs beside it, nor its packages side by side

# all_modules prints every module of the tree but tools, the root first: its tests have the machine to themselves.
all_modules() {
  echo .
  find . -mindepth 2 -name go.mod -not -path './tools/*' -not -path '*/.*/*' | sed 's|^\./||; s|/go.mod$||' | sort
}

# module_named prints the module that an argument means; root is the root module.
module_named() {
  local m=${1#./}
  m=${m%/} m=${m/#root/.}
  [[ -f $m/go.mod && $m != tools ]] && echo "$m"
}

# has_chosen reports whether one of some modules is among the chosen ones.
has_chosen() {
  local m
  for m in "$@"; do [[ " ${modules[*]} " != *" $m "* ]] || return 0; done
  return 1
}

# side_by_side runs a function with each of the words, two at a time. What it prints for a word comes in one piece.
side_by_side() {
  local function=$1
  shift
  export -f part race_of newest_of "${function?}"
  export set tmp short parts lab_module
  printf '%s\n' "$@" | xargs -P 2 -I{} bash -c 'part "$@"' _ "$function" {}
}

# part runs a function with one word. It notes the time for the table.
part() {
  local start=$SECONDS log code
  log=$(mktemp "$tmp/part.XXXXXX")
  (set -euo pipefail; "$1" "$2") >"$log" 2>&1 </dev/null
  code=$?
  printf '\n%s: %s\n' "$2" "$( ((code == 0)) && echo ok || echo FAILED)" >>"$log"
  cat "$log"
  printf '%8s %5ds    %s\n' "" $((SECONDS - start)) "${2/#./root}" >>"$parts"
  return "$code"
}

# prepare notes how the tree looks.
prepare() {
  command -v go >/dev/null || { echo "scripts/test needs Go 1.25 or newer: https://go.dev/dl/" >&2; exit 1; }
  tmp=$(mktemp -d)
  trap 'chmod -R u+w "$tmp" && rm -rf "$tmp"' EXIT # the module cache of a release is read-only
  trap 'exit 130' INT
  trap 'kill $(our_processes | cut -d " " -f 1) 2>/dev/null || true; exit 143' TERM
  changes >"$tmp/before"
  export GUARD_TEST_RUN=$$-$RANDOM$RANDOM # marks every process of this run
}

# needs_of prints the commands and files that a step needs, each with the Debian packages that have it.
needs_of() {
  local every="guardctl/all lab"
  echo "$(go env CC) gcc libc6-dev" # for the race detector
  echo "redis-server redis-server"
  case $1 in
    browser) echo "chromium chromium fonts-dejavu-core fonts-wqy-zenhei" ;;
    test | newest)
      ! has_chosen . || printf '%s\n' "lua5.1 lua5.1" "lua5.4 lua5.4"
      ! has_chosen $every fence/pgxtx jobs/river locker/postgreslocker || echo "initdb postgresql"
      ! has_chosen locker/postgreslocker || echo "pgbouncer pgbouncer"
      ! has_chosen $every locker/mysqllocker || echo "mariadbd mariadb-server"
      ! has_chosen $every locker/zookeeperlocker ||
        echo "/usr/share/java/zookeeper.jar libzookeeper-java default-jre-headless"
      ;;
  esac
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

# changes prints how the tree differs from the last commit, if it is a clone.
changes() {
  git -c "safe.directory=$root" diff HEAD 2>/dev/null || return 0
  git -c "safe.directory=$root" status --porcelain
}

# unchanged runs a command, which must leave the tree as it is.
unchanged() {
  changes >"$tmp/unchanged"
  "$@"
  changes | diff "$tmp/unchanged" -
}

# our_processes prints the id and the command of each process that this run has started, where the system tells.
our_processes() {
  local dir
  for dir in /proc/[0-9]*; do
    if grep -qsxzF "GUARD_TEST_RUN=$GUARD_TEST_RUN" "$dir/environ"; then
      printf '%s %s\n' "${dir#/proc/}" "$(tr '\0' ' ' <"$dir/cmdline")"
    fi
  done 2>/dev/null
}

# step runs a step, unless something is missing for it, and writes its lines of the table.
step() {
  local name=$1 title=$2 start=$SECONDS result=ok line
  export parts=$tmp/parts.$name
  : >"$parts"
  printf '\n=== %s: %s\n' "$name" "$title"
  while read -r line; do
    need $line </dev/null || { result="NOT RUN" title+=": ${line%% *} is missing: $lacking"; break; }
  done < <(needs_of "$name")
  if [[ $result == ok ]]; then
    (set -e; "step_$name") & # not `if (...)`, which would switch off -e inside the step as well
    wait $! || result=FAILED
  fi
  printf -- '--- %s: %s (%ds)\n' "$name" "$result" $((SECONDS - start))
  printf '%-8s %5ds  %-9s %s\n' "$result" $((SECONDS - start)) "$name" "$title" | cat - "$parts" >>"$tmp/table"
}

# finish prints the table and ends the run.
finish() {
  echo
  cat "$tmp/table"
  [[ -z $other_steps ]] || echo "not asked for:$other_steps"
  ! grep -q '^FAILED' "$tmp/table" || { echo "FAILED, $SECONDS s in all"; exit 1; }
  ! grep -q '^NOT RUN' "$tmp/table" || { echo "FAILED: not everything was run; install what is missing"; exit 1; }
  echo "ok, $SECONDS s in all"
}
