package box

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := tryLock(path)
	if err != nil || first == nil {
		t.Fatalf("got %v, %v for a free lock", first, err)
	}
	if second, err := tryLock(path); err != nil || second != nil {
		t.Fatalf("got %v, %v for a lock that is held", second, err)
	}
	// What a command that removes the box does, while another one has the file open.
	waiting, err := os.OpenFile(path, os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if same, err := sameFile(waiting, path); err != nil || same {
		t.Errorf("a removed lock file counts as the lock: %v, %v", same, err)
	}
	third, err := tryLock(path)
	if err != nil || third == nil {
		t.Fatalf("got %v, %v after the lock was removed", third, err)
	}
	third.Close()
}
