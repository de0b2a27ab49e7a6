package box

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/internal/box/cache"
	"github.com/slinky-hpc/slinky/internal/box/debian"
	"github.com/slinky-hpc/slinky/internal/box/hostcmd"
	"github.com/slinky-hpc/slinky/internal/box/nodeinit"
	"github.com/slinky-hpc/slinky/internal/box/pki"
	"github.com/slinky-hpc/slinky/internal/box/progress"
)

const (
	// EmulatedNode is the name of the node that Emulate adds.
	EmulatedNode = "emulated"
	// EmulatedTaint keeps pods that don't ask for it off the slow machine.
	EmulatedTaint = "slinky.box/emulated"

	// emulatedNumber is beside the numbers that the other nodes have, for its addresses.
	emulatedNumber = maxNodes + 1
	// emulatedLimit is long: without KVM everything takes ten times as long.
	emulatedLimit = 10 * time.Minute

	diskSize   = "8G"
	selfInside = "/usr/local/bin/slinky"
	// machineStart is the machine's first program. The driver of the root disk is in the kernel, so it needs no initial file
	// system. The other disk has another driver: the kernel numbers two of a kind as it finds them, now so and then so.
	machineStart = `#!/bin/sh
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t devtmpfs devtmpfs /dev && exec </dev/console >/dev/console 2>&1 && mount -t proc proc /proc && modprobe virtio_blk &&
tar --extract --file /dev/vda --directory / &&
exec tini -s -- ` + selfInside + ` machine-init
`
)

// Emulate adds a node that is a machine of its own, emulated by QEMU without KVM: 8 CPUs in 2 sockets, 2 NUMA nodes and
// pairs of threads, with cgroup v2. The named images are on it, beside those that every node has.
func (b *Box) Emulate(ctx context.Context, images []string) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the emulated machine is an amd64 one and runs this machine's programs, which are %s", runtime.GOARCH)
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := b.load()
	if err != nil {
		return err
	}
	status, err := b.status(ctx, EmulatedNode)
	if err != nil {
		return err
	}
	if status != "running" {
		if err := b.makeMachine(ctx, state.Parts, images); err != nil {
			return err
		}
	}
	return b.Report.Run(ctx, "The machine's kernel, containerd and kubelet", b.waitForMachine)
}

func (b *Box) makeMachine(ctx context.Context, p Parts, images []string) error {
	if err := b.keepSelf(ctx); err != nil {
		return err
	}
	var emulator debian.Emulator
	if err := b.Report.Run(ctx, "QEMU and a kernel", func(ctx context.Context, s *progress.Step) (err error) {
		emulator, err = debian.NewEmulator(ctx, b.Cache, s)
		return err
	}); err != nil {
		return err
	}
	var disk string
	if err := b.Report.Run(ctx, "The machine's disk", func(ctx context.Context, s *progress.Step) (err error) {
		disk, err = b.machineDisk(ctx, s, p, emulator, images)
		return err
	}); err != nil {
		return err
	}
	return b.startMachine(ctx, emulator, disk)
}

// machineDisk makes the file system that the machine starts from: that of the nodes, with the kernel's modules, the
// programs and the images, but nothing of this box.
func (b *Box) machineDisk(ctx context.Context, s *progress.Step, p Parts, e debian.Emulator, names []string) (string, error) {
	if err := debian.EnsureHostPackages(ctx, s, "e2fsprogs"); err != nil {
		return "", err
	}
	images, err := b.buildImages(ctx, s, slices.Compact(slices.Sorted(slices.Values(append([]string{"pause", "debian"}, names...)))))
	if err != nil {
		return "", err
	}
	seed, err := b.makeSeed(ctx, p.Rootfs, images)
	if err != nil {
		return "", err
	}
	key, err := cache.NewKey("machine", machineStart, p.Rootfs, seed, e.Rootfs, p.Tools.Kube, p.Tools.Crictl).Sum()
	if err != nil {
		return "", err
	}
	disk, err := b.Cache.File(ctx, "machine", key, func(ctx context.Context, path string) (err error) {
		tree, script := path+".tree", path+".start"
		defer func() { err = errors.Join(err, os.RemoveAll(tree), os.Remove(script)) }()
		if err := os.WriteFile(script, []byte(machineStart), 0o755); err != nil {
			return err
		}
		// Links cost nothing: the tree is only read.
		for _, args := range [][]string{
			{"cp", "--archive", "--link", p.Rootfs, tree},
			{"rm", "-r", tree + "/var/lib/containerd"},
			{"cp", "--archive", "--link", seed, tree + "/var/lib/containerd"},
			{"mkdir", "--parents", tree + "/usr/lib/modules"},
			{"cp", "--archive", "--link", e.Modules, tree + "/usr/lib/modules/"},
			{"cp", "--link", p.Tools.Kube, tree + kubeInside},
			{"cp", "--link", p.Tools.Crictl, tree + "/usr/local/bin/crictl"},
			{"cp", script, tree + "/machine"},
			{"truncate", "--size", diskSize, path},
			// What is written to it is thrown away with the machine, so it needs no journal.
			{"mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1", "-d", tree, path},
		} {
			if err := hostcmd.Run(ctx, hostcmd.Cmd{Args: args, Out: s}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	b.prune(ctx, "machine", 1)
	return disk, nil
}

func (b *Box) startMachine(ctx context.Context, e debian.Emulator, disk string) error {
	if err := b.machineNetwork(ctx); err != nil {
		return fmt.Errorf("make the network of the emulated machine: %w", err)
	}
	files, err := b.machineFiles()
	if err != nil {
		return fmt.Errorf("configure the emulated machine: %w", err)
	}
	archive := b.containerDir(EmulatedNode, "machine.tar")
	if err := replaceFile(archive, files, 0o600); err != nil {
		return err
	}
	// The console of an earlier machine would be shown as this one's.
	if err := os.RemoveAll(b.containerDir(EmulatedNode, "logs")); err != nil {
		return err
	}
	return b.start(ctx, container{
		name: EmulatedNode, rootfs: e.Rootfs, beside: controlPlane,
		readonly: map[string]string{"/machine/disk": disk, "/machine/files": archive},
		init: nodeinit.Config{LogDir: "/logs", Services: []nodeinit.Service{
			{Name: "qemu", Args: qemu(e), Env: []string{"TMPDIR=/var/tmp"}},
		}},
	})
}

// qemu is the command line of the machine. Its console goes to the log of the service.
func qemu(e debian.Emulator) []string {
	const (
		memory = "memory-backend-ram,size=2G,id="
		boot   = "root=/dev/nvme0n1 rootwait rw console=ttyS0 quiet panic=5 mitigations=off init=/machine"
	)
	return []string{"qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "Westmere,+rdrand",
		"-smp", "8,sockets=2,cores=2,threads=2", "-m", "4G",
		"-object", memory + "m0", "-numa", "node,nodeid=0,cpus=0-3,memdev=m0",
		"-object", memory + "m1", "-numa", "node,nodeid=1,cpus=4-7,memdev=m1",
		"-numa", "dist,src=0,dst=1,val=21",
		"-kernel", e.Kernel, "-append", boot,
		"-display", "none", "-serial", "stdio", "-monitor", "none",
		"-drive", "id=disk,file=/machine/disk,if=none,format=raw,snapshot=on,cache=unsafe", "-device", "nvme,drive=disk,serial=disk",
		"-drive", "id=files,file=/machine/files,if=none,format=raw,snapshot=on", "-device", "virtio-blk-pci,drive=files",
		"-netdev", "tap,id=n0,ifname=" + EmulatedNode + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01", "-device", "virtio-rng-pci"}
}

// machineNetwork gives the machine a port of the bridge between the nodes.
func (b *Box) machineNetwork(ctx context.Context) error {
	router := b.netns(controlPlane)
	if exists(b.dir("netns", EmulatedNode)) {
		return nil
	}
	for _, args := range [][]string{
		{"tuntap", "add", EmulatedNode, "mode", "tap"},
		{"link", "set", EmulatedNode, "master", "br0", "up"},
		{"route", "replace", podCIDR(emulatedNumber), "via", nodeIP(emulatedNumber)},
	} {
		if err := ip(ctx, append([]string{"-n", router}, args...)...); err != nil {
			return err
		}
	}
	return replaceFile(b.dir("netns", EmulatedNode), nil, 0o644)
}

// kernelModules are what containers, their network and kube-proxy need of the kernel.
func kernelModules() []string {
	return []string{"virtio_net", "virtio_rng", "overlay", "veth", "bridge", "br_netfilter", "nf_tables", "nft_ct", "nft_nat", "nft_masq", "nft_reject_inet",
		"nft_fib_inet", "nft_numgen", "nft_chain_nat", "xt_nat", "xt_comment", "xt_mark", "xt_addrtype", "nft_compat", "nf_conntrack_netlink"}
}

// sparing has daemons in Go, and what they start, look for work on two CPUs and not on all eight of the machine, each of which
// is emulated, and collect garbage less often.
func sparing() []string { return []string{"GOMAXPROCS=2", "GOGC=300"} }

// machineFiles is a tar archive of what makes the disk this box's node: identity and configuration.
func (b *Box) machineFiles() ([]byte, error) {
	config := nodeConfig(EmulatedNode, nodeIP(emulatedNumber))
	for i := range config.Services {
		config.Services[i].Env = append(config.Services[i].Env, sparing()...)
	}
	config.Machine = &nodeinit.Machine{Hostname: EmulatedNode, Address: nodeIP(emulatedNumber) + "/24", Gateway: controlPlaneIP, Modules: kernelModules()}
	files, err := b.nodeFiles(EmulatedNode, emulatedNumber, []corev1.Taint{{Key: EmulatedTaint, Effect: corev1.TaintEffectNoSchedule}})
	if err != nil {
		return nil, err
	}
	start, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	files["init.json"] = string(start)
	all := map[string]string{}
	for name, text := range files {
		all["node/"+name] = text
	}
	ca, err := pki.Open(b.pkiDir(), time.Now())
	if err != nil {
		return nil, err
	}
	if err := ca.Issue(EmulatedNode, nodeSubject(EmulatedNode, emulatedNumber)); err != nil {
		return nil, err
	}
	if err := ca.WriteKubeconfig(ca.File(EmulatedNode+".conf"), EmulatedNode, b.prefix(), apiServer); err != nil {
		return nil, err
	}
	for inside, source := range map[string]string{
		"ca.crt": "ca.crt", "kubelet.crt": EmulatedNode + ".crt", "kubelet.key": EmulatedNode + ".key", "kubelet.conf": EmulatedNode + ".conf",
		"kube-proxy.conf": "kube-proxy.conf",
	} {
		data, err := os.ReadFile(ca.File(source))
		if err != nil {
			return nil, err
		}
		all[filepath.Join("pki", inside)] = string(data)
	}
	self, err := os.ReadFile(b.Self)
	if err != nil {
		return nil, err
	}
	all[strings.TrimPrefix(selfInside, "/")] = string(self)
	return pack(all)
}

// pack writes files into a tar archive.
func pack(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// waitForMachine waits until kubelet on the machine is ready, and shows meanwhile how far it is.
func (b *Box) waitForMachine(ctx context.Context, s *progress.Step) error {
	console := b.containerDir(EmulatedNode, "logs", "qemu.log")
	err := until(ctx, emulatedLimit, func(ctx context.Context) error {
		lines := strings.Split(fileTail(console), "\n")
		s.Detail("%s", strings.TrimSpace(lines[len(lines)-1]))
		ready, err := b.kubectl(ctx, nil, "get", "node", EmulatedNode, "--ignore-not-found", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready != "True" {
			err = fmt.Errorf("node %s is not ready: %q", EmulatedNode, ready)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\nThe end of the machine's console:\n%s", err, fileTail(console))
	}
	return nil
}
