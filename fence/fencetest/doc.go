// Package fencetest tries packages redisfence and sqlfence on real servers. It
// is a module of its own for the sake of the database drivers.
package fencetest
