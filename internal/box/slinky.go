package box

import "context"

func (b *Box) installSlinky(ctx context.Context, nodes int) error { return nil }
