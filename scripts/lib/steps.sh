# shellcheck shell=bash disable=SC2016,SC2034,SC2046,SC2086,SC2154 # variables are shared with scripts/test; lists are words
# The steps, in the order of the table. Sourced by scripts/test.
#
# Packages are compiled with the race detector wherever that is possible, so that the steps share what they compile.
# Only guardgen is not: it has no goroutines, and type-checks what is imported, which the race detector makes slow.
race_of() { [[ $1 == guardgen* ]] || echo -race; }

step_tools() {
  echo "building the linters (minutes on a machine that has not done it before)"
  GOBIN="$root/.tools/bin" go -C tools install tool
}

# A gofumpt that Go 1.26 has built cannot read generic methods.
step_format() {
  { gofumpt -d . 2>&1 || true; } | (! grep -v '^methods_go127.go:[0-9:]* method must have no type parameters$')
}

step_tidy() {
  local m
  for m in "${modules[@]}"; do go -C "$m" mod tidy -diff; done
  [[ $set != small ]] || return 0
  go -C tools mod tidy -diff
  diff <(sed -nE 's/^\t(\.\/)?//p' go.work | sort) <(all_modules | sort) || { echo "go.work lacks a module"; return 1; }
  unchanged list_workspace
}

# list_workspace adds to go.work.sum what it lacks, as a build does: a build finds nothing to add when all sums are there.
list_workspace() {
  local GOWORK=$root/go.work
  go list -m all >/dev/null
  go list -deps -test work >/dev/null
}

# The committed output of generators must be what they write now.
step_generate() { unchanged generate; }
generate() {
  local m GOWORK=$root/go.work # has the generator
  for m in "${modules[@]}"; do
    ! grep -rq --include='*.go' '^//go:generate' "$m" || go -C "$m" generate ./...
  done
}

step_vet() {
  local m os
  side_by_side vet_module "${modules[@]}"
  [[ $set != small ]] || return 0
  go -C guardgen build -o "$tmp/guardvet" ./guardvet
  side_by_side guardvet_module "${modules[@]}"
  for m in . guardctl examples {jobs,middleware}/*; do # users build these; vet needs no C compiler
    has_chosen "$m" || continue
    for os in windows darwin; do GOOS=$os CGO_ENABLED=0 go -C "$m" vet ./...; done
  done
}

# It compiles most of what the tests need. With fewer collections that takes a tenth less.
vet_module() { GOGC=400 go -C "$1" vet $(race_of "$1") ./...; }
guardvet_module() { go -C "$1" vet $(race_of "$1") -vettool="$tmp/guardvet" ./...; }

step_lint() {
  local m
  golangci-lint config verify
  for m in "${modules[@]}"; do
    echo "module $m"
    (cd "$m" && GOFLAGS="$GOFLAGS $(race_of "$m")" golangci-lint run ./...)
  done
}

# Links, code, translations and defaults in the documents.
step_docs() {
  go test -race -count=1 ./internal/doccheck ./docs/...
  go test -race -count=1 -run 'Default' .
}

# The root module has most of the tests on a real clock, so no other module runs beside it.
step_test() {
  local m first=(.) tested=() code=0
  [[ $set != small ]] || first+=(guardgen) # without clocks, it takes what the root module leaves
  for m in "${modules[@]}"; do
    case " ${first[*]} $browser_module $lab_module " in *" $m "*) ;; *) tested+=("$m") ;; esac
  done
  ! has_chosen . || side_by_side test_module "${first[@]}" || code=$?
  ((${#tested[@]} == 0)) || side_by_side test_module "${tested[@]}" || code=$?
  ! has_chosen "$lab_module" || side_by_side test_module "$lab_module" || code=$?
  return "$code"
}

test_module() {
  local flags=(-vet=off -timeout 15m -parallel 4) nice=0 # parallel tests mostly wait
  if [[ -n $short ]]; then flags+=(-short); else flags+=(-shuffle=on); fi # with -shuffle Go keeps no results
  [[ $set != small ]] || flags+=(-p 3) # packages wait, too
  [[ $1 != "$lab_module" ]] || flags+=(-p 1)
  [[ $1 != guardgen ]] || nice=10
  [[ -z $short ]] || export GORACE=atexit_sleep_ms=100 # by default each test binary sleeps for 1 s at its end
  # By the environment, so that programs which tests build share what is compiled.
  GOFLAGS="$GOFLAGS $(race_of "$1")" nice -n "$nice" go -C "$1" test "${flags[@]}" ./...
}

step_browser() { go -C "$browser_module" test -race -vet=off -count=1 -timeout 5m ./...; } # pictures are in screenshots/

step_single() {
  local paths='HandedOver|Offer|Grant|Tenure|Renewal|Panic|Close|Sibling|DoAll_IsBounded' # through all locks
  GOMAXPROCS=1 go test -race -vet=off -short -shuffle=on -timeout 5m \
    -skip 'MemoryIsBounded|DieSilently|AcrossProcesses' . ./test
  go test -race -vet=off -tags lockorder -timeout 5m -skip Allocates ./internal/lockorder ./internal/turns # the check allocates
  go test -race -vet=off -tags lockorder -timeout 5m -run "$paths" . ./test # not all, because the check is slow
}

# The root module has most of the tests on a real clock, see step_test.
step_newest() {
  local m rest=()
  for m in "${modules[@]}"; do [[ $m == . || -z $(newest_of "$m") ]] || rest+=("$m"); done
  if has_chosen .; then
    GOTOOLCHAIN=go1.27.3 go test -vet=off -run TestGenericMethods ./test # of Go 1.27
    side_by_side newest_in .
  fi
  ((${#rest[@]} == 0)) || side_by_side newest_in "${rest[@]}"
}

# newest_of prints the newest versions that users of a module may bring along; go.mod has the oldest.
newest_of() {
  case $1 in
    .)
      echo github.com/gin-gonic/gin@v1.12.0 github.com/labstack/echo/v4@v4.16.0 github.com/redis/go-redis/v9@v9.23.0
      echo go.opentelemetry.io/otel{,/metric,/trace,/sdk,/sdk/metric}@v1.47.0
      ;;
    fence/pgxtx | locker/postgreslocker) echo github.com/jackc/pgx/v5@v5.12.0 ;;
    jobs/asynq) echo github.com/hibiken/asynq@v0.26.0 ;;
    jobs/gocron) echo github.com/go-co-op/gocron/v2@v2.21.2 ;;
    jobs/river) echo github.com/riverqueue/river{,/riverdriver/riverpgxv5}@v0.51.1 ;;
    jobs/watermill) echo github.com/ThreeDotsLabs/watermill{@v1.5.1,-redisstream@v1.4.5} ;;
    locker/etcdlocker) echo go.etcd.io/etcd/client/v3@v3.7.3 ;;
    locker/etcdlocker/etcdtest) echo go.etcd.io/etcd/{client,server}/v3@v3.7.3 ;;
    locker/mysqllocker) echo github.com/go-sql-driver/mysql@v1.10.1 ;;
    locker/sqlitelocker) echo modernc.org/sqlite@v1.61.1 ;;
    locksfor)
      echo github.com/pressly/goose/v3@v3.29.0 github.com/golang-migrate/migrate/v4@v4.20.1
      echo github.com/caddyserver/certmagic@v0.25.6
      ;;
    middleware/connect) echo connectrpc.com/connect@v1.21.1 ;;
    middleware/connectv2) echo connectrpc.com/connect/v2@v2.0.2 ;;
    middleware/echov5) echo github.com/labstack/echo/v5@v5.4.4 ;;
    middleware/fiber) echo github.com/gofiber/fiber/v3@v3.5.0 ;;
    middleware/kratos) echo github.com/go-kratos/kratos/v3@v3.0.0 ;;
  esac
}

# newest_in tests a module with newer versions of what it requires, and for once at full speed, without -race.
newest_in() {
  local m=$1 copy
  copy=$(mktemp -d "$tmp/newest.XXXXXX")
  cp "$m"/go.{mod,sum} "$copy"
  go -C "$m" get -modfile="$copy/go.mod" $(newest_of "$m")
  go -C "$m" mod tidy -modfile="$copy/go.mod"
  go -C "$m" test -modfile="$copy/go.mod" -short -vet=off -parallel 4 -timeout 10m ./... # parallel tests mostly wait
}

step_fuzz() {
  side_by_side fuzz_target $(grep -roE --include='*_test.go' '^func Fuzz\w+' . | sed -E 's|/[^/]*:func |:|' | sort)
}

# The fuzzer of Go before 1.27 may report the end of its own time as a failure (go.dev/issue/75804). It writes no input
# then, as it does with a finding; only such a failure is tried again.
fuzz_target() {
  local dir=${1%:*} name=${1#*:} log=$tmp/fuzz.${1#*:}
  for _ in 1 2 3; do
    go -C "$dir" test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime 5s -parallel 1 . 2>&1 | tee "$log" && return
    grep -q 'Failing input written' "$log" && return 1
    grep -q '^ *context deadline exceeded$' "$log" || return 1
  done
  return 1
}

step_models() { model/run -quick; }

step_demo() {
  local last
  go -C examples run -race ./flashsale -json | tee "$tmp/demo"
  last=$(tail -n 1 "$tmp/demo")
  [[ $last =~ \"sold\":\ ?500, && $last =~ \"oversold\":\ ?0, && $last =~ \"lost_updates\":\ ?0, ]]
}

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
  local port=$((10000 + RANDOM % 20000)) id code=0
  go test -race -vet=off -count=1 -run Conformance ./locker/redislocker
  redis-server --port "$port" --bind 127.0.0.1 --dir "$tmp" --save "" >"$tmp/server.log" 2>&1 &
  id=$!
  for _ in {1..50}; do (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break || sleep 0.2; done
  kill -0 "$id" || { cat "$tmp/server.log"; return 1; } # another may have the port
  go -C guardctl run . prove "127.0.0.1:$port" | tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}" || code=$?
  kill "$id"
  ((code == 0)) || cat "$tmp/server.log"
  return "$code"
}

# A finding is a reason to raise an oldest version in go.mod, or to update Go.
step_vuln() {
  local m
  for m in "${modules[@]}"; do govulncheck -C "$m" ./...; done
}

# A process may take a moment to end.
step_clean() {
  local left
  changes | diff "$tmp/before" - || { echo "this run has changed the tree"; return 1; }
  for _ in {1..50}; do
    left=$(our_processes)
    [[ -n $left ]] || return 0
    sleep 0.2
  done
  printf 'these processes are left:\n%s\n' "$left"
  return 1
}
