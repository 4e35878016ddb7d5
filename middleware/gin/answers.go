package lockmw

import (
	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard/internal/httpguard"
)

type answers = httpguard.Answers[func(*gin.Context, error)]

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

// Answers returns a middleware that sets how locks answer on all routes inside
// it. It also sets how [Abort] answers there, in handlers without a lock too:
//
//	r.Use(lockmw.Answers(lockmw.WithErrorHandler(envelope)))
//
// The options of a route take precedence. Answers panics if an option is nil.
func Answers(opts ...AnswerOption) gin.HandlerFunc {
	a := newAnswers(opts)
	return func(c *gin.Context) {
		before := answersIn(c)
		c.Set(answersKey, a.Over(before))
		defer c.Set(answersKey, before)
		c.Next()
	}
}

// setAnswers makes c carry the answers of the options, if there are any. The
// function that it returns takes them back.
func (cfg *config) setAnswers(c *gin.Context) (undo func()) {
	if !cfg.answers.Any() {
		return func() {}
	}
	before := answersIn(c)
	c.Set(answersKey, cfg.answers.Over(before))
	return func() { c.Set(answersKey, before) }
}
