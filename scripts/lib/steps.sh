# shellcheck shell=bash disable=SC2016,SC2034,SC2046,SC2086,SC2154 # variables are shared with scripts/test; lists are words
# The steps, in the order of the table. Sourced by scripts/test.
#
# The workspace has one version of each dependency, the newest, so that the steps share what they compile. All but the
# small set compile with the race detector. Only guardgen is without: it has no goroutines, and type-checks what is
# imported, which the race detector makes slow.
race_of() { [[ $1 == guardgen* ]] || echo $race; }

step_tools() {
  echo "building the linters (minutes on a machine that has not done it before)"
  GOWORK=off GOBIN="$root/.tools/bin" go -C tools install tool
}

# A gofumpt that Go 1.26 has built cannot read generic methods.
step_format() {
  { gofumpt -d . 2>&1 || true; } | (! grep -v '^methods_go127.go:[0-9:]* method must have no type parameters$')
}

step_tidy() {
  local m
  for m in "${modules[@]}" tools; do GOWORK=off go -C "$m" mod tidy -diff; done
  diff <(sed -nE 's/^\t\.\/?//p' go.work | sed 's/^$/./' | sort) <(all_modules | sort) ||
    { echo "go.work lacks a module"; return 1; }
  unchanged list_workspace
}

# list_workspace adds to go.work.sum what it lacks, as a build does: a build finds nothing to add when all sums are there.
# What go.work pins must be no older than what a module has come to require, which a replacement would hide.
list_workspace() {
  local path required pinned
  go list -m -f '{{with .Replace}}{{$.Path}} {{$.Version}} {{.Version}}{{end}}' all | while read -r path required pinned; do
    [[ $(printf '%s\n' "$required" "$pinned" | sort -V | tail -n 1) == "$pinned" ]] || ! grep -q "^\s$path =>" go.work ||
      { echo "go.work pins $path $pinned, and a module requires $required"; exit 1; }
  done
  go list -deps -test work >/dev/null
}

# The committed output of generators must be what they write now.
step_generate() { unchanged generate; }
generate() {
  local m
  for m in "${modules[@]}"; do
    ! grep -rq --include='*.go' '^//go:generate' "$m" || go -C "$m" generate ./...
  done
}

step_vet() {
  local m os systems=(windows) users=(. guardctl) # the modules with files for a system
  side_by_side vet_module "${modules[@]}"
  ! has_chosen examples || go -C examples vet $race -tags otlp ./flashsale # a file that nothing else compiles
  go -C guardgen build -o "$tmp/guardvet" ./guardvet
  side_by_side guardvet_module "${touched[@]}"
  [[ $set != nightly ]] || systems+=(darwin) users+=(examples {jobs,middleware}/*/go.mod)
  for m in "${users[@]%/go.mod}"; do # vet needs no C compiler
    has_chosen "$m" || continue
    for os in "${systems[@]}"; do GOOS=$os CGO_ENABLED=0 go -C "$m" vet ./...; done
  done
}

# It compiles most of what the tests need. With fewer collections that takes a tenth less.
vet_module() { GOGC=400 go -C "$1" vet $(race_of "$1") ./...; }
guardvet_module() { go -C "$1" vet $(race_of "$1") -vettool="$tmp/guardvet" ./...; }

step_lint() {
  local m code=0
  golangci-lint config verify
  for m in "${touched[@]}"; do
    echo "module $m"
    (cd "$m" && GOFLAGS="$GOFLAGS $(race_of "$m")" golangci-lint run ./...) || code=$?
  done
  return "$code"
}

# Links, code, translations and defaults in the documents, and what tests elsewhere read in them. Those of the laboratory
# need servers, so they wait for a change there.
step_docs() {
  local readers='Default|Readme|Documents|IsDocumented|OfTheDocs|OfTheStories|Prometheus|TheTables|Dashboard'
  go test $race -count=1 $short ./internal/doccheck ./docs/...
  go test $race -count=1 $short -run "$readers" . ./tracing ./locker/redislocker ./guardtest/explore \
    ./examples/flashsale/show ./examples/metrics
  go test -count=1 $short -run "$readers" ./guardgen ./guardgen/guardvet/checks # see race_of
}

# One database server at a time works beside other tests. The laboratory, which judges how soon things happen, comes last
# and has the machine to itself. The "-" is for bash 3 (macOS), where an empty list is an unset variable.
step_test() {
  local m databases=() tested=() code=0
  [[ $set != nightly ]] || export GOWORK=off
  for m in "${modules[@]}"; do
    case $m in
      "$browser_module" | lab) ;;
      locker/* | guardctl/all | fence/pgxtx | jobs/river) databases+=("$m") ;;
      *) tested+=("$m") ;;
    esac
  done
  [[ -z ${databases[*]-} ]] || tested=("${databases[*]}" ${tested[@]+"${tested[@]}"})
  [[ -z ${tested[*]-} ]] || side_by_side test_module "${tested[@]}" || code=$?
  ! has_chosen lab || side_by_side test_module lab || code=$?
  return "$code"
}

test_module() {
  local flags=(-vet=off -timeout 15m -parallel 8) packages=./... # parallel tests mostly wait
  [[ -z $short ]] || flags+=(-short)
  # The small set has one server, and each check of the store's suite once; a proof takes long. Of four packages at a
  # time two mostly wait.
  [[ $set != small ]] || { packages=$small; flags+=(-p 4 -skip 'Sentinel|Cluster|Replica|Prove|Conformance[IW]|/[cC]luster|/Sentinel'); }
  [[ $set != nightly ]] || flags+=(-count=1 "-shuffle=$GUARD_SEED" -timeout 40m -skip '^TestSim') # see step_sim
  [[ -z $short ]] || export GORACE=atexit_sleep_ms=100 # by default each test binary sleeps for 1 s at its end
  # By the environment, so that programs which tests build share what is compiled.
  GOFLAGS="$GOFLAGS $(race_of "$1")" go -C "$1" test "${flags[@]}" $packages
}

# Without the race detector, and in the long form: see lab/simulation.md. At night all single faults are tried, and pairs
# for a moment in each scenario, five minutes in all on Redis as on rows: GUARD_SEED has chosen their order.
step_sim() {
  [[ $set == nightly ]] || { go test -vet=off -run '^TestSim(Rows.*)?$' ./guardtest/explore; return; }
  side_by_side simulated TestSimRows 'TestSim(Repeats|FindsPlants|RowsReplays)' TestSim
}

simulated() {
  local time=7s
  [[ $1 != TestSimRows ]] || time=1s # in eight times as many scenarios
  [[ $1 == *Repeats* ]] || export SIM_LEVEL=2 SIM_TIME=$time
  go test -vet=off -count=1 -timeout 2h -tags simrepeats -v -run "^$1\$" ./guardtest/explore
}

step_go127() { GOWORK=off GOTOOLCHAIN=go1.27.3 go test -vet=off -run TestGenericMethods ./test; }

step_browser() { go -C "$browser_module" test -race -vet=off -count=1 -timeout 5m ./...; } # pictures are in screenshots/

step_single() {
  local paths='HandedOver|Offer|Grant|Tenure|Renewal|Panic|Close|Sibling|DoAll_IsBounded' # through all locks
  GOMAXPROCS=1 go test -race -vet=off -short -shuffle=on -timeout 5m . ./test
  go test -race -vet=off -tags lockorder -timeout 5m -skip Allocates ./internal/lockorder ./internal/turns # the check allocates
  go test -race -vet=off -tags lockorder -timeout 5m -run "$paths" . ./test # not all, because the check is slow
}

# Under the race detector guardtest/explore tries only some of its runs.
step_fuzz() {
  go test -vet=off -count=1 -timeout 30m -skip '^TestSim' ./guardtest/explore/... # see step_sim
  side_by_side fuzz_target $(grep -roE --include='*_test.go' '^func Fuzz\w+' . | sed -E 's|/[^/]*:func |:|' | sort)
}

# The fuzzer of Go before 1.27 may report the end of its own time as a failure (go.dev/issue/75804). It writes no input
# then, as it does with a finding; only such a failure is tried again.
fuzz_target() {
  local dir=${1%:*} name=${1#*:} log=$tmp/fuzz.${1#*:}
  for _ in 1 2 3; do
    go -C "$dir" test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime 1m -parallel 1 . 2>&1 | tee "$log" && return
    grep -q 'Failing input written' "$log" && return 1
    grep -q '^ *context deadline exceeded$' "$log" || return 1
  done
  return 1
}

# Each topology for a minute, one at a time: torture judges how soon a lock is given, too. ZooKeeper's client races with
# itself when it connects again (lastZxid), which is told and fails nothing.
step_torture() {
  local servers races code=0
  GOFLAGS="$GOFLAGS -race" go -C lab build -o "$tmp/torture" ./torture
  for servers in single sentinel cluster redlock postgres mysql sqlite etcd zookeeper nats; do
    [[ $servers == zookeeper ]] && races=exitcode=0 || races=""
    GORACE=$races "$tmp/torture" -topology "$servers" -for 1m -seed "${GUARD_SEED:-1}" $(roles_on "$servers") || code=$?
  done
  return "$code"
}

# A quorum has writers only.
roles_on() { [[ $1 == redlock ]] || echo "-roles writer,reader,permit,cart,once,payment"; }

step_models() { model/run $([[ $set == nightly ]] || echo -quick); }

# What a newcomer runs, on the redis-server that the tests need anyway.
step_demo() {
  local last port
  port=$(start_redis)
  go run ./examples/flashsale -redis "redis://127.0.0.1:$port/0" -wait 1m -json | tee "$tmp/demo"
  last=$(tail -n 1 "$tmp/demo")
  [[ $last =~ \"sold\":\ ?500, && $last =~ \"oversold\":\ ?0, && $last =~ \"lost_updates\":\ ?0, ]]
}

# Of the modules that have changed.
step_api() { scripts/release --api "${touched[@]}"; }

# It tries the last commit, in a clone, as a version that never comes. First it plants faults there, which must be named.
step_release() {
  git -c "safe.directory=$root/.git" -c "safe.directory=$root" clone -q "$root" "$tmp/clone"
  refused "CHANGELOG.md has nothing under Unreleased" sed -i '/^## \[Unreleased\]/,$d' CHANGELOG.md
  refused "CHANGELOG.md has a section for v0.1.0 already" \
    sed -i 's/^## \[Unreleased\]/&\n\n- a line\n\n## [0.1.0] - 2026-01-01/' CHANGELOG.md
  refused "without a line under Changed or Removed in CHANGELOG.md:.* KeyHash" \
    bash -c "grep -rlw KeyHash --include='*.go' . | xargs sed -i 's/\bKeyHash\b/KeyHashed/g'"
  refused "the tree is not clean" touch planted
  git -C "$tmp/clone" clean -qf
  git -C "$tmp/clone" reset -q --hard origin/HEAD
  TMPDIR="$tmp" "$tmp/clone/scripts/release" --dry-run v0.999.0
}

# refused plants a fault in the clone by a command and commits. It expects that the release says what is wrong.
refused() {
  local want=$1 clone=$tmp/clone
  shift
  git -C "$clone" reset -q --hard origin/HEAD
  (cd "$clone" && "$@" && git -c user.name=test -c user.email=test@localhost commit -qa --allow-empty -m planted)
  if TMPDIR="$tmp" "$clone/scripts/release" --dry-run v0.1.0 >"$tmp/refused" 2>&1 || ! grep -E -e "$want" "$tmp/refused"; then
    cat "$tmp/refused"
    echo "scripts/release does not say: $want"
    return 1
  fi
}

# It takes any server that speaks Redis and the flags of redis-server below. The report also goes to CI's summary of a job.
step_server() {
  local port
  go test -race -vet=off -count=1 -run Conformance ./locker/redislocker
  port=$(start_redis)
  go run ./guardctl prove "127.0.0.1:$port" | tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}" || { cat "$tmp/server.log"; return 1; }
}

# start_redis starts a server, which runs until the end of the step, and prints its port.
start_redis() {
  local port=$((10000 + RANDOM % 20000)) id
  redis-server --port "$port" --bind 127.0.0.1 --dir "$tmp" --save "" >"$tmp/server.log" 2>&1 &
  id=$!
  echo "$id" >>"$tmp/servers"
  for _ in {1..50}; do (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break || sleep 0.2; done
  kill -0 "$id" || { cat "$tmp/server.log" >&2; return 1; } # another may have the port
  echo "$port"
}

# A finding is a reason to raise an oldest version in go.mod, which the workspace does not show, or to update Go.
step_vuln() {
  local m
  for m in "${modules[@]}"; do GOWORK=off govulncheck -C "$m" ./...; done
}

# Prints the files of git that look like the output of a program.
outputs() {
  git ls-files | grep -E '(^|/)([0-9]+/.*|log|[^/]*\.(log|out|prof|test|rdb|aof|pid|tmp|orig|rej))$' || true
}

# A process may take a moment to end.
step_clean() {
  local left
  left=$(outputs)
  [[ -z $left ]] || { printf 'git has files that look like the output of a program:\n%s\n' "$left"; return 1; }
  changes | diff "$tmp/before" - || { echo "this run has changed the tree"; return 1; }
  for _ in {1..50}; do
    left=$(our_processes)
    [[ -n $left ]] || return 0
    sleep 0.2
  done
  printf 'these processes are left:\n%s\n' "$left"
  return 1
}
