# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with scripts/test
# Running steps, and the table at the end. Sourced by scripts/test.

table="" other_steps="" failed=0 not_run=0 lacking="" running=()

# prepare makes sure of what every run needs, and notes how the tree looks.
prepare() {
  tmp=$(mktemp -d)
  trap 'chmod -R u+w "$tmp" && rm -rf "$tmp"' EXIT # the module cache of a release is read-only
  trap 'exit 130' INT
  trap 'end_children; exit 143' TERM
  need_always
  changes >"$tmp/before"
  export GUARD_TEST_RUN=$$-$RANDOM$RANDOM # marks every process of this run
}

# changes prints how the tree differs from the last commit.
changes() {
  local git=(git -c "safe.directory=$root")
  "${git[@]}" rev-parse HEAD >/dev/null 2>&1 || return 0 # no clone
  "${git[@]}" diff
  "${git[@]}" status --porcelain
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

# end_children ends what a run has started, for one that is told to end itself.
end_children() {
  local pid
  for pid in $(our_processes | cut -d ' ' -f 1); do
    kill "$pid" 2>/dev/null || true
  done
}

# run_step starts a step, unless something is missing for it. It waits for the steps before it to end, unless a + stands
# before its name: then it runs beside the one before it, and what it prints comes when both have ended.
run_step() {
  local name=${1#+} title=$2 line
  [[ $1 == +* ]] || wait_for_steps
  while read -r line; do
    # shellcheck disable=SC2086 # a command and its packages
    if [[ -n $line ]] && ! need $line </dev/null; then
      not_run=1
      echo "--- $name: not run, ${line%% *} is missing: $lacking"
      printf '%-8s %6s  %-9s %s\n' "NOT RUN" "" "$name" "$title: ${line%% *} is missing: $lacking" >"$tmp/line.$name"
      running+=("$name")
      return
    fi
  done < <(needs_of "$name")
  if ((${#running[@]})); then
    step "$name" "$title" >"$tmp/log.$name" 2>&1 </dev/null &
  else
    step "$name" "$title" </dev/null & # stdin has the list of steps
  fi
  running+=("$name")
}

# step runs a step and writes its line of the table.
step() {
  local name=$1 title=$2 start=$SECONDS code result=ok
  export parts=$tmp/parts.$name
  : >"$parts"
  printf '\n=== %s: %s\n' "$name" "$title"
  set +e # not `if (...)`, which would switch off -e inside the step as well
  (set -e; "step_$name")
  code=$?
  set -e
  ((code == 0)) || result=FAILED
  printf -- '--- %s: %s (%ds)\n' "$name" "$result" $((SECONDS - start))
  printf '%-8s %5ds  %-9s %s\n' "$result" $((SECONDS - start)) "$name" "$title" >"$tmp/line.$name"
  while read -r _ seconds module; do
    printf '%8s %5ds    %s\n' "" "$seconds" "${module/#./root}" >>"$tmp/line.$name"
  done <"$parts"
}

# wait_for_steps waits for the steps that run, and adds their lines to the table.
wait_for_steps() {
  local name
  wait
  for name in "${running[@]}"; do
    [[ ! -f $tmp/log.$name ]] || cat "$tmp/log.$name"
    table+=$(cat "$tmp/line.$name")$'\n'
    ! grep -q '^FAILED' "$tmp/line.$name" || failed=1
  done
  running=()
}

# finish prints the table and ends the run.
finish() {
  wait_for_steps
  printf '\n%s' "$table"
  [[ -z $other_steps ]] || echo "not asked for:$other_steps"
  ((failed == 0)) || { echo "FAILED, $SECONDS s in all"; exit 1; }
  ((not_run == 0)) || [[ -n $allow_missing ]] || {
    echo "FAILED: not everything was run; install what is missing, or allow it with -allow-missing"
    exit 1
  }
  echo "ok, $SECONDS s in all"
}
