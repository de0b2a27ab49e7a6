package box

import (
	"context"
	"io"
)

func (b *Box) Hints(o Options) string                                        { return "" }
func (b *Box) Status(ctx context.Context, out io.Writer) error               { return nil }
func (b *Box) Demo(ctx context.Context, out io.Writer) error                 { return nil }
func (b *Box) RunSlurm(ctx context.Context, s Streams, args ...string) error { return nil }
