// Package fencetest tests packages redisfence and sqlfence on real servers. It
// is a module of its own because of the database drivers.
package fencetest
