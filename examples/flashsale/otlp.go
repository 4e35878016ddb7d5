//go:build otlp

package main

import (
	"github.com/go-lockguard/guard/examples/flashsale/otlp"
	"github.com/go-lockguard/guard/examples/flashsale/show"
)

func init() { show.Exporters = otlp.Exporters }
