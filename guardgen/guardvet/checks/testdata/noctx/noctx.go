package noctx

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"os/exec"
	"time"

	"github.com/go-lockguard/guard"
)

type store struct {
	db     *sql.DB
	client *http.Client
}

type queue struct{}

func (queue) Send(string) error                                { return nil }
func (queue) SendWithContext(context.Context, string) error    { return nil }
func (queue) Len() int                                         { return 0 }
func (queue) LenContext(context.Context) int                   { return 0 }
func (queue) Close() error                                     { return nil }
func (queue) CloseContext(_ context.Context, hurry bool) error { return nil }
func (queue) Publish(context.Context, string) error            { return nil }
func (queue) PublishContext(_, _ context.Context, _ int) error { return nil }

func (queue) Encode(any) error                         { return nil }
func (queue) EncodeContext(context.Context, any) error { return nil }

func Marshal(any) ([]byte, error)                         { return nil, nil }
func MarshalContext(context.Context, any) ([]byte, error) { return nil, nil }

func (s *store) reported(ctx context.Context, g *guard.Guard, q queue) {
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		_, _ = s.db.ExecContext(ctx, "UPDATE stock SET n = n - 1")
		_, err := s.db.Exec("UPDATE stock SET n = n - 1") // want `s.db.Exec goes on when the lease is lost: call ExecContext with the context of the lease`
		return err
	})
	_, _ = g.TryDo(ctx, "a", func(context.Context) error {
		var n int
		return s.db.QueryRow("SELECT n FROM stock").Scan(&n) // want `s.db.QueryRow goes on when the lease is lost: call QueryRowContext`
	})
	_, _ = guard.Once(ctx, g, "a", time.Hour, func(context.Context) (int, error) {
		tx, err := s.db.Begin() // want `s.db.Begin goes on when the lease is lost: call BeginTx`
		if err != nil {
			return 0, err
		}
		return 1, tx.Commit()
	})
	_ = g.Do(ctx, "a", func(context.Context) error {
		_, _ = http.Get("http://stock")                                          // want `http.Get goes on when the lease is lost: call http.NewRequestWithContext`
		_, _ = s.client.Post("http://stock", "", nil)                            // want `s.client.Post goes on when the lease is lost: call http.NewRequestWithContext`
		_, _ = (&http.Client{Timeout: time.Minute}).Get("http://stock")          // want `goes on when the lease is lost`
		req, err := http.NewRequest(http.MethodGet, "http://stock", http.NoBody) // want `http.NewRequest goes on when the lease is lost`
		_ = exec.Command("sync").Run()                                           // want `exec.Command goes on when the lease is lost: call exec.CommandContext`
		_, _ = s.client.Do(req)
		_ = q.Send("text") // want `q.Send goes on when the lease is lost: call SendWithContext`
		return err
	})
}

func (s *store) acquired(ctx context.Context, g *guard.Guard) error {
	_, _ = s.db.Exec("SELECT 1") // before
	lease, err := g.Acquire(ctx, "a")
	if err != nil {
		_, _ = s.db.Exec("SELECT 1") // not held
		return err
	}
	defer s.db.Exec("SELECT 1")                  // cleans up
	_, err = s.db.Exec("UPDATE stock SET n = 0") // want `s.db.Exec goes on when the lease is lost: call ExecContext`
	_ = lease.Release(ctx)
	_, _ = s.db.Exec("SELECT 1") // behind
	return err
}

func (s *store) fine(ctx context.Context, g *guard.Guard, q queue) {
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		tx, err := s.db.BeginTx(ctx, nil) // whose end comes with that of ctx
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE stock SET n = n - 1"); err != nil {
			return err
		}
		return tx.Commit()
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		slog.Info("connected")
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://stock", http.NoBody)
		if err != nil {
			return err
		}
		res, err := s.client.Do(req)
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
	_ = g.Do(ctx, "a", func(ctx context.Context) error {
		_, _ = q.Len(), q.Close()
		_ = q.Encode("text")
		_, _ = Marshal("text")
		_ = exec.CommandContext(ctx, "sync").Run()
		_ = s.db.Stats()
		go s.db.Exec("INSERT INTO log VALUES (1)") // on its own
		return q.Publish(ctx, "text")
	})
	_, _ = s.db.Exec("SELECT 1")
}

func (s *store) withContext(ctx context.Context, g *guard.Guard) error {
	return g.Do(ctx, "a", func(ctx context.Context) error {
		req, err := http.NewRequest(http.MethodGet, "http://stock", http.NoBody)
		if err != nil {
			return err
		}
		_, err = s.client.Do(req.WithContext(ctx))
		return err
	})
}
