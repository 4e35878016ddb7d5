package host

import (
	"os"
	"syscall"
	"unsafe"
)

// Share maps a T in file, and makes the file if it does not exist. All
// processes that do so share this memory. T must have no pointers. unmap ends
// the mapping.
func Share[T any](file string) (shared *T, unmap func() error, err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // a file of the parent's own
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // the mapping stays
	size := int(unsafe.Sizeof(*shared))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	//nolint:gosec // the mapping is page-aligned and as large as a T
	return (*T)(unsafe.Pointer(&b[0])), func() error { return syscall.Munmap(b) }, nil
}

// TempFile returns a name for a file in dir and a function that removes it.
func TempFile(dir string) (file string, remove func(), err error) {
	f, err := os.CreateTemp(dir, "arena")
	if err != nil {
		return "", nil, err
	}
	return f.Name(), func() { _ = os.Remove(f.Name()) }, f.Close()
}
