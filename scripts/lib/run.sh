# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with scripts/test
# Running steps, and the table at the end. Sourced by scripts/test.

table="" other_steps="" failed=0 not_run=0 lacking=""

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

# run_step runs a step, unless something is missing for it, and adds its line to the table.
run_step() {
  local name=$1 title=$2 start=$SECONDS code=0 result=ok line
  printf '\n=== %s: %s\n' "$name" "$title"
  while read -r line; do
    # shellcheck disable=SC2086 # a command and its packages
    if [[ -n $line ]] && ! need $line </dev/null; then
      not_run=1
      echo "--- $name: not run, ${line%% *} is missing: $lacking"
      table+=$(printf '%-8s %6s  %-9s %s' "NOT RUN" "" "$name" "$title: ${line%% *} is missing: $lacking")$'\n'
      return
    fi
  done < <(needs_of "$name")
  : >"$tmp/parts"
  set +e # not `if (...)`, which would switch off -e inside the step as well
  (set -e; "step_$name") </dev/null # stdin has the list of steps
  code=$?
  set -e
  ((code == 0)) || { result=FAILED; failed=1; }
  printf -- '--- %s: %s (%ds)\n' "$name" "$result" $((SECONDS - start))
  table+=$(printf '%-8s %5ds  %-9s %s' "$result" $((SECONDS - start)) "$name" "$title")$'\n'
  while read -r _ seconds module; do
    table+=$(printf '%8s %5ds    %s' "" "$seconds" "${module/#./root}")$'\n'
  done <"$tmp/parts"
}

# finish prints the table and ends the run.
finish() {
  printf '\n%s' "$table"
  [[ -z $other_steps ]] || echo "not asked for:$other_steps"
  ((failed == 0)) || { echo "FAILED, $SECONDS s in all"; exit 1; }
  ((not_run == 0)) || [[ -n $allow_missing ]] || {
    echo "FAILED: not everything was run; install what is missing, or allow it with -allow-missing"
    exit 1
  }
  echo "ok, $SECONDS s in all"
}
