#!/usr/bin/env bash
# Plants faults in a clone of this repository, and expects scripts/release to name
# each of them. Run by the step release of scripts/test.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clone=$work/clone
export GOWORK=off

# planted resets the clone, runs a command in it, and commits.
planted() {
  git -C "$clone" reset -q --hard origin/HEAD
  (cd "$clone" && "$@")
  git -C "$clone" -c user.name=test -c user.email=test@localhost commit -qam "a planted fault"
}

# refused expects that the release fails and says what is wrong.
refused() {
  local want=$1
  if "$clone/scripts/release" --dry-run v0.1.0 >"$work/log" 2>&1; then
    echo "scripts/release did not notice: $want"
    return 1
  fi
  grep -E -e "$want" "$work/log" >/dev/null || { cat "$work/log"; echo "scripts/release does not say: $want"; return 1; }
  echo "refused: $want"
}

git -c "safe.directory=$root/.git" -c "safe.directory=$root" clone -q "$root" "$clone"

planted sed -i '/^## \[Unreleased\]/,$d' CHANGELOG.md
refused "CHANGELOG.md has nothing under Unreleased"

planted sed -i 's/^## \[Unreleased\]/&\n\n- a line\n\n## [0.1.0] - 2026-01-01/' CHANGELOG.md
refused "CHANGELOG.md has a section for v0.1.0 already"

planted bash -c "grep -rlw KeyHash --include='*.go' . | xargs sed -i 's/\bKeyHash\b/KeyHashed/g'"
refused "without a line under Changed or Removed in CHANGELOG.md:.* KeyHash"

git -C "$clone" reset -q --hard origin/HEAD
echo >>"$clone/go.mod"
refused "the tree is not clean"
