// Package atomicfile replaces files as a whole: who reads one at any time, also after
// the writer was killed, finds the old content or the new one.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Durability says what is left of a file after a crash of the machine.
type Durability bool

const (
	// Flushed: the old file or the new one, whole, and the new one once Replace has returned.
	Flushed Durability = true
	// Cached: anything. It costs no waiting for the disk.
	Cached Durability = false
)

// Replace gives a file new content and the mode. Its folder must be there.
func Replace(path string, data []byte, mode fs.FileMode, d Durability) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode))
	if d == Flushed {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if d != Flushed {
		return nil
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
