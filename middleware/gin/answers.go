package lockmw

import "github.com/gin-gonic/gin"

type errorHandler = func(*gin.Context, error)

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

func answersIn(c *gin.Context) answers {
	v, _ := c.Get(answersKey)
	a, _ := v.(answers)
	return a
}

// Answers returns a middleware that sets, once for all routes inside it, how
// locks answer, and how [Abort] does in a handler without a lock too:
//
//	r.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route go before. It panics if an option is nil.
func Answers(opts ...AnswerOption) gin.HandlerFunc {
	a := newAnswers(opts)
	return func(c *gin.Context) {
		before := answersIn(c)
		c.Set(answersKey, a.over(before))
		defer c.Set(answersKey, before)
		c.Next()
	}
}
