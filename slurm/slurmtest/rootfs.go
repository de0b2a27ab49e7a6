package slurmtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// What the root file system is made of. A change of any of it makes another one.
const (
	suite    = "forky" // the Debian release that has Slurm 26.05
	packages = "slurmctld,slurmd,slurmrestd,slurm-client,slurm-wlm-jwt-plugin,base-files,libc-bin,bash,dash,coreutils"
	// accountingPackages come on top of them for a cluster with a database.
	accountingPackages = ",slurmdbd,mariadb-server-core"

	passwd = `root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
slurm:x:64030:64030::/nonexistent:/usr/sbin/nologin
slurmrest:x:64031:64031::/nonexistent:/usr/sbin/nologin
alice:x:2001:2001::/tmp:/bin/bash
bob:x:2002:2002::/tmp:/bin/bash
`
	mysqlUser = "mysql:x:64029:64029::/nonexistent:/usr/sbin/nologin\n"
	group     = `root:x:0:
nogroup:x:65534:
slurm:x:64030:
slurmrest:x:64031:
alice:x:2001:
bob:x:2002:
`
	mysqlGroup = "mysql:x:64029:\n"
	nsswitch   = "passwd: files\ngroup: files\nhosts: files\n"
	hosts      = "127.0.0.1 localhost slurmctl\n"
)

// The users of the file system that daemons run as.
const (
	slurmUID     = 64030
	slurmrestUID = 64031
	mysqlUID     = 64029
)

// rootContent is what one kind of root file system holds.
type rootContent struct{ packages, passwd, group string }

func contentFor(accounting bool) rootContent {
	c := rootContent{packages, passwd, group}
	if accounting {
		c.packages += accountingPackages
		c.passwd += mysqlUser
		c.group += mysqlGroup
	}
	return c
}

// rootFS returns the folder with Slurm's programs, making it first if it isn't
// in the user's cache. Several processes may ask at once.
func rootFS(ctx context.Context, content rootContent, logf func(string, ...any)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256([]byte(strings.Join([]string{"1", suite, content.packages, content.passwd, content.group, nsswitch, hosts}, "\x00")))
	dir := filepath.Join(cache, "slinky", fmt.Sprintf("slurmtest-%x", key[:6]))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	logf("making a root file system with Slurm in %s; once, some 40 MB to fetch", dir)
	partial := dir + ".partial" // ours alone: the lock is held
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := makeRootFS(ctx, content, partial); err != nil {
		return "", errors.Join(err, os.RemoveAll(partial))
	}
	return dir, os.Rename(partial, dir)
}

func makeRootFS(ctx context.Context, content rootContent, dir string) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		install := []string{"apt-get", "install", "-y", "--no-install-recommends", "mmdebstrap"}
		if run(ctx, install...) != nil {
			if err := run(ctx, "apt-get", "update"); err != nil {
				return err
			}
			if err := run(ctx, install...); err != nil {
				return err
			}
		}
	}
	mirror, err := mirror(ctx)
	if err != nil {
		return err
	}
	// The variant unpacks packages and runs none of their scripts. A frozen mirror's list may
	// be past its date; its signature is checked all the same.
	err = run(ctx, "mmdebstrap", "--mode=root", "--variant=extract", "--quiet",
		"--aptopt=Acquire::Check-Valid-Until \"false\"", "--aptopt=Acquire::Languages \"none\"",
		"--aptopt=APT::Install-Recommends \"false\"", "--include="+content.packages, suite, dir, mirror)
	if err != nil {
		return err
	}
	return finish(content, dir)
}

// mirror returns the Debian mirror that this machine's own apt uses.
func mirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its mirror: %w", err)
	}
	site, _, _ := strings.Cut(string(out), "\n")
	if site == "" {
		return "", errors.New("apt has no mirror: no package source is configured in /etc/apt")
	}
	return site, nil
}

func run(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, tail(string(out), 2000))
	}
	return nil
}

// finish does what the packages' scripts would have done, as far as Slurm needs it.
func finish(content rootContent, dir string) error {
	for link, target := range map[string]string{
		"usr/sbin/slurmctld": "slurmctld-wlm", "usr/sbin/slurmd": "slurmd-wlm",
		"usr/sbin/slurmstepd": "slurmstepd-wlm", "usr/bin/sh": "dash",
	} {
		path := filepath.Join(dir, link)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"passwd": content.passwd, "group": content.group, "nsswitch.conf": nsswitch, "hosts": hosts} {
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "cluster", "etc/slurm"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	return nil
}
