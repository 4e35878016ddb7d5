package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// unmarked is the last commit whose entries in the store have no version mark.
// It is the oldest commit beside which today's guard must work.
const unmarked = "c57b0845aa0dab343a3824010531520f850028c0"

// modeless is the last commit that has exclusive leases only.
const modeless = "f88c977c242c45512e818c87c7852e5e034af404"

// build makes the torture program of another commit in dir. Its workers run
// beside those of today on the same keys. It needs git and the commit.
//
// Such a worker must understand today's job, and write records that the judge
// reads. So a field that is added to either must be optional.
func build(ctx context.Context, commit, dir string) (program string, err error) {
	top, err := output(ctx, ".", "git", "-c", "safe.directory=*", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o750); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "source.tar")
	if _, err := output(ctx, top, "git", "-c", "safe.directory=*", "archive", "-o", archive, commit); err != nil {
		return "", fmt.Errorf("%w (is %s in this clone? git fetch --unshallow)", err, commit)
	}
	if _, err := output(ctx, source, "tar", "-xf", archive); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "torture")
	_, err = output(ctx, filepath.Join(source, "internal", "torture"), "go", "build", "-buildvcs=false",
		"-trimpath", "-o", program, ".")
	return program, err
}

// output runs a command in a directory and returns its output without the last
// newline.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // with arguments of ours
	cmd.Dir, cmd.Stderr = dir, &errs
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(errs.Bytes()))
	}
	return string(bytes.TrimSpace(out)), err
}
