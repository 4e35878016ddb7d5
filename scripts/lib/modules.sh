# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with scripts/test
# The modules of the tree, and running parts side by side. Sourced by scripts/test.

# The modules of the small set.
small_modules=(. guardctl guardgen middleware/grpc)

# The module with a step of its own: it needs something that step test can do without.
browser_module=examples/flashsale/browsertest

# It measures and judges how soon a lock is given, so it has the machine to itself: nothing runs beside it, and its
# packages come one after the other.
lab_module=lab

# all_modules prints every module of the tree but tools, the root first, because its tests have the machine to themselves.
all_modules() {
  local found
  found=$(find . -name go.mod -not -path './tools/*' -not -path '*/.*/*' -exec dirname {} \; | sed 's|^\./||' | sort)
  printf '%s\n' .
  grep -vx '\.' <<<"$found"
}

# module_named prints the module that an argument means; root is the root module.
module_named() {
  local m=${1#./}
  m=${m%/}
  [[ $m != root ]] || m=.
  [[ -f $m/go.mod && $m != tools ]] && echo "$m"
}

# steps_of prints the steps that test some modules, in one line.
steps_of() {
  local m steps="tidy vet"
  for m in "$@"; do
    case $m in
      "$browser_module") steps+=" browser" ;;
      *) steps+=" test" ;;
    esac
  done
  echo "$steps"
}

# is_chosen reports whether a module is among the chosen ones.
is_chosen() { [[ " ${modules[*]} " == *" $1 "* ]]; }

# side_by_side runs a function with each of the words, two at a time. What it prints for a word comes in one piece.
side_by_side() {
  local function=$1
  shift
  export -f part race_of
  # shellcheck disable=SC2163 # the function that it names
  export -f "$function"
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
  printf '%s %d %s\n' "$1" $((SECONDS - start)) "$2" >>"$parts"
  return "$code"
}
