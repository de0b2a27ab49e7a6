package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/debian"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
)

// dockerfile is images/NAME/Dockerfile with all that it needs.
type dockerfile struct {
	recipe  recipe
	parent  Image             // build argument BASE
	part    Image             // build argument PART, if the recipe has one
	context map[string]string // files by their name in the build context
}

func (d dockerfile) path(source string) string {
	return filepath.Join(source, "images", d.recipe.name, "Dockerfile")
}

// key changes when the image would.
func (d dockerfile) key(source string) (string, error) {
	key := cache.NewKey("dockerfile 2", d.recipe.ref, d.parent.Digest)
	if d.recipe.part != "" {
		key.Strings(d.part.Digest)
	}
	key.File(d.path(source))
	for _, name := range slices.Sorted(maps.Keys(d.context)) {
		key.File(d.context[name])
	}
	return key.Sum()
}

// buildDockerfile builds it on its parent. The build context is a folder with the entrypoint and the recipe's files, as it is for
// whoever builds the same file with docker or podman.
func buildDockerfile(ctx context.Context, o Options, d dockerfile) (Image, error) {
	r := d.recipe
	key, err := d.key(o.Source)
	if err != nil {
		return Image{}, err
	}
	dir, err := o.Cache.Dir(ctx, "image", r.name+"-"+key, func(ctx context.Context, dir string) error {
		if err := debian.EnsureHostPackages(ctx, o.Out, "buildah"); err != nil {
			return err
		}
		// buildah keeps its own store; it is one more cache, so that a Dockerfile's first steps aren't done again when only its last
		// ones change.
		return o.Cache.Locked(ctx, "buildah", "store", func(ctx context.Context, home string) error {
			store, err := openStore(home, o.Out)
			if err != nil {
				return err
			}
			return store.build(ctx, d, d.path(o.Source), dir)
		})
	})
	if err != nil {
		return Image{}, err
	}
	return readLayout(dir, r.ref)
}

// store is buildah's storage in a folder of ours. Only one process may use it at a time.
type store struct {
	home   string
	driver string
	out    io.Writer
}

func openStore(home string, out io.Writer) (*store, error) {
	// What a killed run says about its mounts is not true any more: they went with their namespace.
	for _, name := range []string{"run", "tmp"} {
		if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"run", "tmp", "root", "seen", "apt/lists/partial", "apt/archives/partial", "apt/conf"} {
		if err := os.MkdirAll(filepath.Join(home, name), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll("/var/lib/containers", 0o700); err != nil {
		return nil, err
	}
	driver, err := storageDriver(home)
	if err != nil {
		return nil, err
	}
	return &store{home: home, driver: driver, out: out}, nil
}

// storageDriver is overlay, but the kernel doesn't stack overlay on overlay.
func storageDriver(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "vfs", nil
	}
	return "overlay", nil
}

func (s *store) command(out io.Writer, args ...string) hostcmd.Cmd {
	global := []string{
		"buildah", "--root", filepath.Join(s.home, "root"), "--runroot", filepath.Join(s.home, "run"), "--storage-driver", s.driver,
	}
	env := append(os.Environ(), "TMPDIR="+filepath.Join(s.home, "tmp"), "LC_ALL=C.UTF-8")
	// buildah writes a list of layers that it has seen to /var/lib/containers, wherever its storage is. In the command's own mount
	// namespace that folder is one of ours.
	hide := []string{"sh", "-c", `mount --bind "$0" /var/lib/containers && exec "$@"`, filepath.Join(s.home, "seen")}
	return hostcmd.Cmd{Name: "buildah " + args[0], Args: append(append(hide, global...), args...), Env: env, Out: out, Contained: true}
}

func (s *store) run(ctx context.Context, args ...string) error {
	return hostcmd.Run(ctx, s.command(s.out, args...))
}

// build builds the Dockerfile and writes the image as an OCI layout to dir.
func (s *store) build(ctx context.Context, d dockerfile, file, dir string) error {
	defer os.Remove("/var/lib/containers") // if it is empty it was ours
	base, err := s.ensure(ctx, d.parent)
	if err != nil {
		return err
	}
	args := []string{"--build-arg", "BASE=" + base}
	if d.recipe.part != "" {
		part, err := s.ensure(ctx, d.part)
		if err != nil {
			return err
		}
		args = append(args, "--build-arg", "PART="+part)
	}
	build := filepath.Join(s.home, "tmp", "context")
	if err := writeContext(build, d.context); err != nil {
		return err
	}
	if err := s.writeAptSettings(ctx); err != nil {
		return err
	}
	tag := "localhost/built:" + shortName(d.recipe.ref)
	command := append([]string{"build", "--isolation", "chroot", "--layers", "--pull=never", "--format", "oci", "--identity-label=false"}, args...)
	err = s.run(ctx, append(command, "--tag", tag, "--file", file,
		"--volume", filepath.Join(s.home, "apt")+":/mnt", "--volume", filepath.Join(s.home, "apt/conf")+":/etc/apt/apt.conf.d:ro", build)...)
	if err != nil {
		return err
	}
	// The dir format keeps layers as they are in the store; the oci one would compress them, the base again for each image.
	pushed := filepath.Join(s.home, "tmp", "pushed")
	if err := s.run(ctx, "push", "--disable-compression", "--format", "oci", tag, "dir:"+pushed); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	if err := dirToLayout(pushed, dir, d.recipe.ref); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	return shareBlobs(ctx, dir, d.parent.Layout)
}

// writeContext copies the files into a new folder.
func writeContext(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, from := range files {
		to := filepath.Join(dir, name)
		if err := copyFile(from, to); err != nil {
			return err
		}
		// Layers are cached by content and time of the files; the content is all that counts.
		if err := os.Chtimes(to, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			return err
		}
	}
	return nil
}

// ensure brings an image into the store and returns its name there.
func (s *store) ensure(ctx context.Context, parent Image) (string, error) {
	name := "localhost/parent:" + strings.TrimPrefix(parent.Digest, "sha256:")[:32]
	// buildah exits with an error when there is no such image.
	if _, err := hostcmd.Output(ctx, s.command(nil, "images", "--quiet", name)); err == nil {
		return name, nil
	}
	// buildah makes a name of the path, and names must be lower case: a relative path is safe wherever the cache lies.
	link := filepath.Join(s.home, "tmp", "parent")
	if err := os.Symlink(parent.Layout, link); err != nil {
		return "", err
	}
	defer os.Remove(link)
	pull := s.command(s.out, "pull", "--quiet", "oci:parent:"+parent.Name)
	pull.Dir = filepath.Dir(link)
	id, err := hostcmd.Output(ctx, pull)
	if err != nil {
		return "", fmt.Errorf("load %s: %w", parent.Name, err)
	}
	return name, hostcmd.Run(ctx, s.command(s.out, "tag", strings.TrimSpace(id), name))
}

// writeAptSettings makes apt inside the build use this machine's mirror and a download cache outside of the image. Both come by
// mounts over folders that are empty in the image, so nothing of this is left in it.
func (s *store) writeAptSettings(ctx context.Context) error {
	mirror, err := debian.Mirror(ctx)
	if err != nil {
		return err
	}
	options, err := debian.FetchOptions(ctx)
	if err != nil {
		return err
	}
	options = append(options,
		`Dir::State::Lists "/mnt/lists/";`, `Dir::Cache::Archives "/mnt/archives/";`, `Dir::Etc::SourceList "/mnt/sources.list";`,
		`Dir::Etc::SourceParts "-";`, `Dir::Etc::Preferences "/mnt/preferences";`, `APT::Keep-Downloaded-Packages "true";`, `APT::Sandbox::User "root";`)
	if err := os.WriteFile(filepath.Join(s.home, "apt/conf/build"), []byte(strings.Join(options, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	var sources string
	for _, suite := range []string{debian.Suite, debian.StableSuite} {
		sources += fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, suite)
	}
	preferences := fmt.Sprintf("Package: *\nPin: release n=%s\nPin-Priority: 100\n", debian.StableSuite)
	return errors.Join(
		os.WriteFile(filepath.Join(s.home, "apt/preferences"), []byte(preferences), 0o644),
		os.WriteFile(filepath.Join(s.home, "apt/sources.list"), []byte(sources), 0o644),
	)
}
