// Command screenshots makes the pictures of the web page in docs, in a real Chromium: of a
// full cluster in light and dark, of one whose Slurm is away, and of a very large one.
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/internal/web"
	"github.com/slinky-hpc/slinky/test/scene"
)

// anybody lets everybody in: the server lives for one picture.
type anybody struct{}

func (anybody) Allow(http.ResponseWriter, *http.Request) bool { return true }

const patience = 2 * time.Minute

func main() {
	dir := flag.String("dir", "docs/images", "folder to write to")
	flag.Parse()
	if err := run(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // pictures for everybody
		return err
	}
	for _, p := range []struct {
		name  string
		facts view.Facts
		dark  bool
		size  string
	}{
		{"web-full", scene.Full(), false, "1200,1500"}, {"web-dark", scene.Full(), true, "1200,760"},
		{"web-broken", scene.Broken(), false, "1200,760"}, {"web-large", scene.Large(2000, 6000), true, "1200,760"},
	} {
		if err := picture(ctx, filepath.Join(dir, p.name+".png"), p.facts, p.dark, p.size); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func picture(ctx context.Context, path string, facts view.Facts, dark bool, size string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: (&web.Server{Source: scene.Still(facts), Guard: anybody{}}).Handler(), ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(l) }() // until it is closed
	defer func() { _ = server.Close() }()
	args := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=" + size, "--virtual-time-budget=4000", "--screenshot=" + path}
	if dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	out, err := exec.CommandContext(ctx, "chromium", append(args, "http://"+l.Addr().String()+"/")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run chromium (apt-get install chromium): %w\n%s", err, out)
	}
	return shrink(path)
}

// shrink brings a picture down to the colours that are most frequent in it: a page has few.
func shrink(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return err
	}
	count := map[color.Color]int{}
	size := full.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			count[full.At(x, y)]++
		}
	}
	const colours = 160
	list := slices.Collect(maps.Keys(count))
	slices.SortFunc(list, func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	small := image.NewPaletted(size, list[:min(colours, len(list))])
	draw.Draw(small, size, full, size.Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644) //nolint:gosec // pictures for everybody
}
