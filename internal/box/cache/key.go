package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
)

// Key collects everything that decides an entry's content. Errors are kept until Sum.
type Key struct {
	hash hash.Hash
	err  error
}

// NewKey starts a key with some strings.
func NewKey(parts ...string) *Key {
	k := &Key{hash: sha256.New()}
	return k.Strings(parts...)
}

// Strings adds strings. Their bounds count: ("ab", "c") and ("a", "bc") give different keys.
func (k *Key) Strings(parts ...string) *Key {
	for _, p := range parts {
		k.length(int64(len(p)))
		_, _ = io.WriteString(k.hash, p) // a hash takes all
	}
	return k
}

// File adds a file's content, not its name.
func (k *Key) File(path string) *Key {
	if k.err != nil {
		return k
	}
	f, err := os.Open(path)
	if err != nil {
		k.err = err
		return k
	}
	defer f.Close()
	k.content(f)
	return k
}

// FS adds every file of a file system in the order of their names: name, whether it may be executed, content.
func (k *Key) FS(fsys fs.FS) *Key {
	if k.err != nil {
		return k
	}
	k.err = fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := fsys.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		k.Strings(path, fmt.Sprint(info.Mode()&0o111 != 0))
		k.content(f)
		return k.err
	})
	k.Strings("end of files")
	return k
}

// Sum returns the key as 32 hexadecimal digits (128 bits), or the first error.
func (k *Key) Sum() (string, error) {
	if k.err != nil {
		return "", fmt.Errorf("cache key: %w", k.err)
	}
	return hex.EncodeToString(k.hash.Sum(nil)[:16]), nil
}

func (k *Key) content(r fs.File) {
	info, err := r.Stat()
	if err != nil {
		k.err = err
		return
	}
	k.length(info.Size())
	n, err := io.Copy(k.hash, r)
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%s changed while it was read", info.Name())
	}
	k.err = err
}

func (k *Key) length(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	k.hash.Write(b[:])
}
