//go:build !unix

package show

import "errors"

// canStop says that a process cannot be stopped and continued here.
const canStop = false

func (in *instance) halt() error { return errors.ErrUnsupported }

func (in *instance) resume() error { return errors.ErrUnsupported }
