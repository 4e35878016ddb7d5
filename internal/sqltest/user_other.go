//go:build !unix

package sqltest

import "errors"

// become is not needed here: nobody is root.
func (s *Server) become(string) error { return errors.ErrUnsupported }
