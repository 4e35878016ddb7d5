#!/usr/bin/env bash
# Plants faults in a clone of this repository, and expects scripts/release to name each of them. Run by step release.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clone=$work/clone
export GOWORK=off

# refused resets the clone, plants a fault by a command and commits. It expects that the release says what is wrong.
refused() {
  local want=$1
  shift
  git -C "$clone" reset -q --hard origin/HEAD
  (cd "$clone" && "$@" && git -c user.name=test -c user.email=test@localhost commit -qa --allow-empty -m planted)
  if "$clone/scripts/release" --dry-run v0.1.0 >"$work/log" 2>&1 || ! grep -qE -e "$want" "$work/log"; then
    cat "$work/log"
    echo "scripts/release does not say: $want"
    return 1
  fi
  echo "refused: $want"
}

git -c "safe.directory=$root/.git" -c "safe.directory=$root" clone -q "$root" "$clone"

refused "CHANGELOG.md has nothing under Unreleased" sed -i '/^## \[Unreleased\]/,$d' CHANGELOG.md
refused "CHANGELOG.md has a section for v0.1.0 already" \
  sed -i 's/^## \[Unreleased\]/&\n\n- a line\n\n## [0.1.0] - 2026-01-01/' CHANGELOG.md
refused "without a line under Changed or Removed in CHANGELOG.md:.* KeyHash" \
  bash -c "grep -rlw KeyHash --include='*.go' . | xargs sed -i 's/\bKeyHash\b/KeyHashed/g'"
refused "the tree is not clean" touch planted
