//go:build unix

package main

import (
	"context"

	"github.com/go-lockguard/guard/internal/sqltest"
	_ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn"
)

func startMySQL(ctx context.Context, p *Place) error {
	server, err := sqltest.StartMariaDB("innodb-flush-log-at-trx-commit=1")
	if err != nil {
		return err
	}
	p.ending(server.Close)
	if err := p.at(ctx, server.URL); err != nil {
		return err
	}
	return p.behind(ctx, server, nil, func(pipe string) string { return "mysql://guard@" + pipe + "/guard" })
}
