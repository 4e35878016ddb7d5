package lockmw

import (
	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard/internal/httpguard"
)

type answers = httpguard.Answers[func(echo.Context, error) error]

func newAnswers(opts []AnswerOption) (a answers) {
	for _, o := range opts {
		if o == nil {
			panic("lockmw: an option is nil")
		}
		o.set(&a)
	}
	return a
}

func answersIn(c echo.Context) answers {
	a, _ := c.Get(answersKey).(answers)
	return a
}

// Answers returns a middleware that sets how locks answer on all routes inside
// it. It also sets how [Error] answers there, in handlers without a lock too:
//
//	e.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...AnswerOption) echo.MiddlewareFunc {
	a := newAnswers(opts)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			before := answersIn(c)
			c.Set(answersKey, a.Over(before))
			defer c.Set(answersKey, before)
			return returned(c, nil, next(c))
		}
	}
}

// setAnswers makes c carry the answers of the options, if there are any. The
// function that it returns takes them back.
func (cfg *config) setAnswers(c echo.Context) (undo func()) {
	if !cfg.answers.Any() {
		return func() {}
	}
	before := answersIn(c)
	c.Set(answersKey, cfg.answers.Over(before))
	return func() { c.Set(answersKey, before) }
}
