package sqltest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// StartPostgreSQL starts a PostgreSQL server and returns when it takes
// connections. A setting is a line of postgresql.conf, such as "fsync=on". The
// caller closes the server.
func StartPostgreSQL(settings ...string) (_ *Server, err error) {
	const pkg, place = "postgresql", "/usr/lib/postgresql/*/bin"
	initdb, err1 := binary("initdb", pkg, place)
	postgres, err2 := binary("postgres", pkg, place)
	isReady, err3 := binary("pg_isready", pkg, place)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	s, err := prepare("postgres")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.quit = syscall.SIGQUIT // at once: the data is thrown away
	data := filepath.Join(s.dir, "data")
	if err := s.setUp(initdb, "-D", data, "-U", "guard", "-A", "trust", "-E", "UTF8", "--no-locale",
		"--no-sync"); err != nil {
		return nil, err
	}
	err = s.serve(postgres, func(port string) []string {
		args := []string{
			"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.dir,
			"-c", "fsync=off", "-c", "shared_buffers=16MB",
		}
		for _, setting := range settings {
			args = append(args, "-c", setting)
		}
		return args
	}, func(host, port string) bool { // it listens before it serves
		return s.setUp(isReady, "-q", "-h", host, "-p", port) == nil
	})
	s.URL = "postgres://guard@" + s.addr + "/postgres?sslmode=disable"
	return s, err
}

// StartPgBouncer starts a pooler in transaction mode in front of a PostgreSQL
// server, and returns when it takes connections. A setting is a line of its
// configuration, such as "default_pool_size=5". The caller closes it.
func StartPgBouncer(before *Server, settings ...string) (_ *Server, err error) {
	const pkg = "pgbouncer"
	pgbouncer, err := binary("pgbouncer", pkg, "/usr/sbin")
	if err != nil {
		return nil, err
	}
	s, err := prepare("postgres")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.quit = syscall.SIGKILL
	_, port, _ := net.SplitHostPort(before.addr)
	file := filepath.Join(s.dir, "pgbouncer.ini")
	err = s.serve(pgbouncer, func(own string) []string {
		text := "[databases]\n* = host=127.0.0.1 user=guard port=" + port +
			"\n[pgbouncer]\npool_mode=transaction\nauth_type=any\nlisten_addr=127.0.0.1\nunix_socket_dir=" +
			"\nlisten_port=" + own + "\n" + strings.Join(settings, "\n") + "\n"
		_ = os.WriteFile(file, []byte(text), 0o644) // else it does not start
		return []string{file}
	}, listens)
	s.URL = "postgres://guard@" + s.addr + "/postgres?sslmode=disable"
	return s, err
}

// mysqld is a server that speaks MySQL.
type mysqld struct {
	path       string
	setUp      []string // the command that makes a data directory
	open       []string // flags with which everybody may do everything
	statements string   // the same, as SQL
}

// findMySQL finds MariaDB or, where that is missing, MySQL. MySQL takes no
// connections without its tables of rights.
func findMySQL() (mysqld, error) {
	const pkg = "mariadb-server"
	install, err1 := binary("mariadb-install-db", pkg)
	path, err2 := binary("mariadbd", pkg, "/usr/sbin", "/usr/libexec")
	err := errors.Join(err1, err2)
	if err == nil {
		return mysqld{path: path, open: []string{"--skip-grant-tables"}, setUp: []string{
			install, "--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal",
		}}, nil
	}
	if path, err2 = binary("mysqld", "mysql-server", "/usr/sbin"); err2 != nil {
		return mysqld{}, err
	}
	return mysqld{path: path, setUp: []string{path, "--no-defaults", "--initialize-insecure"}, statements: `
CREATE USER IF NOT EXISTS guard@'%';
GRANT ALL ON *.* TO guard@'%' WITH GRANT OPTION;
`}, nil
}

// StartMySQL starts a MariaDB server, or a MySQL server where PATH has no
// MariaDB, and returns when it takes connections. A setting is an option without
// its dashes, such as "innodb-flush-log-at-trx-commit=1". The caller closes the
// server.
func StartMySQL(settings ...string) (_ *Server, err error) {
	found, err := findMySQL()
	if err != nil {
		return nil, err
	}
	s, err := prepare("mysql")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.quit = syscall.SIGKILL
	data, script := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "init.sql")
	statements := []byte("CREATE DATABASE IF NOT EXISTS guard;\n" + found.statements)
	if err := os.WriteFile(script, statements, 0o644); err != nil {
		return nil, err
	}
	if err := s.setUp(found.setUp[0], append(found.setUp[1:], "--datadir="+data)...); err != nil {
		return nil, err
	}
	err = s.serve(found.path, func(port string) []string {
		args := []string{
			"--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(s.dir, "sock"),
			"--pid-file=" + filepath.Join(s.dir, "pid"),
			"--bind-address=127.0.0.1", "--port=" + port, "--skip-name-resolve",
			"--init-file=" + script,
			"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
		}
		args = append(args, found.open...)
		for _, setting := range settings {
			args = append(args, "--"+setting)
		}
		return args
	}, listens)
	s.URL = "mysql://guard@" + s.addr + "/guard"
	return s, err
}
