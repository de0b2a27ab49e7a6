package worlds

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/slinky-hpc/slinky/internal/plan/view"
)

// kindOfFile and versionOfFile are the head of a file: what it is, and whether this program reads it.
const (
	kindOfFile    = "slinky-snapshot"
	versionOfFile = 1
)

type file struct {
	Kind    string
	Version int
	Facts   view.Facts
}

// Write writes facts as a snapshot: one compressed document of JSON.
func Write(w io.Writer, f view.Facts) error {
	z := gzip.NewWriter(w)
	if err := json.NewEncoder(z).Encode(file{kindOfFile, versionOfFile, f}); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// mostBytes bounds what a snapshot may unpack to: a hundred times that of a cluster with 5,000 nodes.
const mostBytes = 8 << 30

// Load reads a snapshot, compressed or as plain JSON. Nothing in it is believed to be clean.
func Load(r io.Reader) (view.Facts, error) {
	b := bufio.NewReader(r)
	var plain io.Reader = b
	if magic, err := b.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return view.Facts{}, fmt.Errorf("unpack the snapshot: %w", err)
		}
		plain = z
	}
	var f file
	if err := json.NewDecoder(io.LimitReader(plain, mostBytes)).Decode(&f); err != nil {
		return view.Facts{}, fmt.Errorf("read the snapshot: %w", err)
	}
	switch {
	case f.Kind != kindOfFile:
		return view.Facts{}, errors.New("this is no snapshot: slinky snapshot FILE writes one")
	case f.Version != versionOfFile:
		return view.Facts{}, fmt.Errorf("the snapshot has version %d, and this slinky reads %d: use the slinky that wrote it", f.Version, versionOfFile)
	}
	view.Clean(&f.Facts)
	return f.Facts, nil
}
