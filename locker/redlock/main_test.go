package redlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.LastDials{M: m}) }
