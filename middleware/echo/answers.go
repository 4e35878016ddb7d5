package lockmw

import "github.com/labstack/echo/v4"

type errorHandler = func(echo.Context, error) error

// answers is how errors are answered. What is not set is as outside.
type answers struct {
	onError errorHandler // nil: the answers of package outcome
	held    int          // status of a held key; 0: that of package outcome
}

func (a answers) any() bool { return a.onError != nil || a.held != 0 }

// over returns a with what it has not set from outer.
func (a answers) over(outer answers) answers {
	if a.onError == nil {
		a.onError = outer.onError
	}
	if a.held == 0 {
		a.held = outer.held
	}
	return a
}

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

// Answers returns a middleware that sets, once for all routes inside it, how
// locks answer, and how [Error] does in a handler without a lock too:
//
//	e.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route go before. It panics if an option is nil.
func Answers(opts ...AnswerOption) echo.MiddlewareFunc {
	a := newAnswers(opts)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			before := answersIn(c)
			c.Set(answersKey, a.over(before))
			defer c.Set(answersKey, before)
			return unguarded(c, next(c))
		}
	}
}
