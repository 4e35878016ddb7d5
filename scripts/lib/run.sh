# shellcheck shell=bash disable=SC2034,SC2046,SC2086,SC2154 # variables are shared with scripts/test; lists are words
# The modules of the tree, what steps need beside Go, running them, and the table at the end. Sourced by scripts/test.

# The small set: those that wait longest come first. One go command for all compiles what they share once, the sale too.
small_packages=(./test ./locker/redislocker ./guardctl/... . ./internal/turns ./locker/memlocker
  ./middleware/{gin,echo,nethttp} ./examples/flashsale)
browser_module=examples/flashsale/browsertest # a step of its own has what it needs
unneeded=""                                   # steps that a change does not need

# all_modules prints every module of the tree but tools, the root first.
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

# here runs git on the checkout, which may belong to another user.
here() { git -c "safe.directory=$root" "$@"; }

# select_changed chooses what the change since origin's main needs: modules are those to test, touched those to lint,
# unneeded the steps to leave out. Where nothing differs there is nothing to judge by, so everything runs.
select_changed() {
  local f m base files every=("${modules[@]}")
  base=$(here merge-base HEAD origin/main 2>/dev/null) || return 0
  mapfile -t files < <(here diff --name-only --no-renames "$base"; here ls-files --others --exclude-standard)
  ((${#files[@]})) || return 0
  modules=() touched=() unneeded="models browser api lint vet generate test sim"
  for f in "${files[@]}"; do
    case $f in
      scripts/* | .ci/* | tools/* | .golangci.yml | go.work* | *go.mod | *go.sum)
        modules=("${every[@]}") touched=("${every[@]}") unneeded=""
        break
        ;;
      docs/faults.md) needed test; modules+=(lab) chosen+=" docs"; continue ;; # a test there generates it
      *.md | docs/*.png | llms.txt) chosen+=" docs"; continue ;;
      .github/* | .gitignore | LICENSE) continue ;;
      model/*) needed models; continue ;;
      internal/turns/* | locker/rowlocker/*) needed models ;;
      examples/flashsale/*) needed browser ;;
      guardgen/guardvet/*) touched=("${every[@]}") ;; # it vets all modules
      guardgen/*) modules+=(examples) ;; # it generates code there
    esac
    needed api lint vet generate test
    m=$(module_of "$f")
    [[ $m != . ]] || needed sim
    touched+=("$m")
    modules+=("$m")
    [[ $f == *_test.go ]] || mapfile -t -O ${#modules[@]} modules < <(dependents_of "$m")
  done
  has_chosen . || chosen+=" docs" # which reads the code of every module
  mapfile -t modules < <(sorted "${modules[@]}")
  mapfile -t touched < <(sorted "${touched[@]}")
  echo "a change of ${touched[*]/#./root} since ${base:0:8}: tests of ${modules[*]/#./root}"
}

needed() { local s; for s in "$@"; do unneeded=${unneeded/$s/}; done; }

# sorted prints each of the words once, the root first.
sorted() { (($# == 0)) || printf '%s\n' "$@" | sort -u; }

# module_of prints the module that a file belongs to. The file may be gone.
module_of() {
  local dir=$1
  while [[ $dir == */* ]]; do
    dir=${dir%/*}
    [[ ! -f $dir/go.mod ]] || { echo "$dir"; return; }
  done
  echo .
}

# dependents_of prints the modules that require a module.
dependents_of() {
  local path=github.com/go-lockguard/guard/$1 m
  path=${path%/.}
  for m in $(all_modules); do ! grep -qE "^(require )?\s*$path v" "$m/go.mod" || echo "$m"; done
}

# side_by_side runs a function with each of the words, two at a time. The words of one argument run one after the other.
# What it prints for a word comes in one piece.
side_by_side() {
  local function=$1
  shift
  export -f in_turn part failures_of race_of "${function?}"
  export set tmp short parts race small="${small_packages[*]}"
  printf '%s\n' "$@" | xargs -P 2 -I{} bash -c 'in_turn "$@"' _ "$function" {}
}

# in_turn runs a function with each word of its second argument.
in_turn() {
  local word code=0
  for word in $2; do part "$1" "$word" || code=$?; done
  return "$code"
}

# part runs a function with one word. It notes the time for the table, and what the tests that failed say.
part() {
  local start=$SECONDS log code result=ok
  log=$(mktemp "$tmp/part.XXXXXX")
  (set -euo pipefail; "$1" "$2") >"$log" 2>&1 </dev/null
  code=$?
  ((code == 0)) || { result=FAILED; failures_of "$2" <"$log" >>"$tmp/failures"; }
  printf '\n%s: %s\n' "$2" "$result" >>"$log"
  cat "$log"
  printf '%8s %5ds    %s\n' "${result/ok/}" $((SECONDS - start)) "${2/#./root}" >>"$parts"
  return "$code"
}

# failures_of prints what the tests that failed say, of the output of go test, which may have lines of other programs.
failures_of() {
  printf '\n%s:\n' "${1/#./root}"
  awk '/^ *--- FAIL|^panic: |^WARNING: DATA RACE/ { on = 1 } /^ *--- (PASS|SKIP)|^(ok|PASS)/ { on = 0 }
    on && /^[ \t]|^--- FAIL|^panic: |^WARNING: |^FAIL\t/ && ++lines <= 150'
}

# prepare notes how the tree looks.
prepare() {
  [[ -z ${GUARD_SEED-} ]] || echo "GUARD_SEED=$GUARD_SEED"
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
  case $1 in
    vet | lint | docs | test | single | torture | server) # for the race detector
      [[ -z $race ]] || echo "$(go env CC) gcc libc6-dev"
      ;;
    models | browser) echo "$(go env CC) gcc libc6-dev" ;;
  esac
  case $1 in
    docs | test | browser | single | fuzz | torture | demo | server) echo "redis-server redis-server" ;;
  esac
  case $1 in
    browser) echo "chromium chromium fonts-dejavu-core fonts-wqy-zenhei" ;;
    test)
      [[ -n $short ]] || ! has_chosen . || printf '%s\n' "lua5.1 lua5.1" "lua5.4 lua5.4"
      ! has_chosen locker/postgreslocker $([[ -n $short ]] || echo lab) || echo "pgbouncer pgbouncer"
      ! has_chosen lab || echo "promtool prometheus"
      ;;
  esac
  case $1 in
    test | torture)
      ! has_chosen $every fence/pgxtx jobs/river locker/postgreslocker || echo "initdb postgresql"
      ! has_chosen $every examples/frameworks locker/mysqllocker || installed mysqld || echo "mariadbd mariadb-server"
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
  [[ -e $tmp/updated ]] || $as apt-get update -qq || true # a stale list may do
  touch "$tmp/updated"
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
  here diff HEAD 2>/dev/null || return 0
  here status --porcelain
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
    [[ ! -e $tmp/servers ]] || { kill $(<"$tmp/servers") || true; rm "$tmp/servers"; } # of start_redis
  fi
  printf -- '--- %s: %s (%ds)\n' "$name" "$result" $((SECONDS - start))
  printf '%-8s %5ds  %-9s %s\n' "$result" $((SECONDS - start)) "$name" "$title" | cat - "$parts" >>"$tmp/table"
}

# finish prints the table and ends the run.
finish() {
  [[ ! -e $tmp/failures ]] || cat "$tmp/failures"
  echo
  cat "$tmp/table"
  [[ -z ${GUARD_SEED-} ]] || echo "GUARD_SEED=$GUARD_SEED repeats the random choices"
  [[ -z $other_steps ]] || echo "not asked for:$other_steps"
  ! grep -q '^FAILED' "$tmp/table" || { echo "FAILED, $SECONDS s in all"; exit 1; }
  ! grep -q '^NOT RUN' "$tmp/table" || { echo "FAILED: not everything was run; install what is missing"; exit 1; }
  echo "ok, $SECONDS s in all"
}
