//go:build unix

package sqltest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// become has the server's processes run as another user, whose directory it is
// from now on.
func (s *Server) become(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return os.Chown(s.dir, uid, gid)
}
