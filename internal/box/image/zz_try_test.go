package image

import (
	"os"
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/internal/box/cache"
)

func TestTry(t *testing.T) {
	if os.Getenv("I_TRY") == "" {
		t.Skip()
	}
	c := cache.New("/tmp/I-cache", nil)
	imgs, err := Build(t.Context(), Options{Cache: c, Source: "/work/main", Names: strings.Fields(os.Getenv("I_TRY")), Out: os.Stdout})
	for _, i := range imgs {
		t.Log(i)
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("I_BUNDLE") != "" {
		t.Log(Bundle(t.Context(), c, imgs))
	}
}
