package sysfs

import "fmt"

// servers are shapes of machines that sites buy, with what is odd about each.
func servers() []model {
	bergamo := regular("two 128-core EPYC Bergamo, four nodes per socket", 2, 256, 2, 8, 32)
	turin := regular("two 192-core EPYC Turin Dense, four nodes per socket: 768 CPUs", 2, 384, 2, 8, 24)
	off := regular("two 96-core EPYC Genoa with threads off", 2, 192, 2, 2, 24)
	off.cpus, off.threads = upTo(192), func(id int) string { return fmt.Sprint(id) }
	off.files = map[string]string{"devices/system/cpu/smt/control": "off", "devices/system/cpu/present": "0-383"}

	// Of a socket in parts each part is a node, and the L3 cache is still one.
	sapphire := regular("two 56-core Xeon Sapphire Rapids, four nodes per socket", 2, 112, 2, 8, 2)
	granite := regular("two 128-core Xeon 6, three nodes per socket, of 43, 43 and 42 cores", 2, 256, 2, 2, 2)
	granite.node = func(id int) int {
		core := id % 256
		return core/128*3 + core%128/43
	}
	sierra := regular("two 144-core Xeon 6 with weak cores: four share an L2 cache", 2, 288, 1, 2, 2)
	sierra.l2 = func(id int) int { return id / 4 }
	sierra.cluster = sierra.l2
	sierra.l2cpus = func(id int) string { return fmt.Sprintf("%d-%d", id/4*4, id/4*4+3) }

	// 6 strong cores of two threads, 8 weak ones, and 2 weaker ones outside of the L3 cache.
	ultra := regular("hybrid laptop: cores of low power have no L3", 1, 22, 1, 1, 1)
	ultra.files = map[string]string{"devices/cpu_atom/cpus": "12-21", "devices/cpu_core/cpus": "0-11", "devices/system/cpu/smt/control": "on"}
	ultra.threads = func(id int) string {
		if id < 12 {
			return fmt.Sprintf("%d-%d", id/2*2, id/2*2+1)
		}
		return fmt.Sprint(id)
	}
	ultra.core = func(id int) int { return id / 2 * 4 }
	ultra.l3cpus = func(id int) string {
		if id < 20 {
			return "0-19"
		}
		return ""
	}

	graviton := regular("virtual machine of 64 Neoverse cores, without cache folders", 1, 64, 1, 1, 1)
	graviton.l2cpus, graviton.l3cpus, graviton.die = nil, nil, nil
	graviton.cluster = func(int) int { return noCluster }
	grace := regular("two 72-core Grace with GPUs' memory as nodes", 2, 144, 1, 2, 2)
	grace.die = nil
	grace.files = map[string]string{"devices/system/cpu/smt/control": "notimplemented"}
	for _, n := range []int{2, 10} {
		grace.files[fmt.Sprintf("devices/system/node/node%d/cpulist", n)] = ""
		grace.files[fmt.Sprintf("devices/system/node/node%d/meminfo", n)] = fmt.Sprintf("Node %d MemTotal: 100663296 kB", n)
	}
	ampere := regular("192-core AmpereOne, two nodes, no L3", 1, 192, 1, 2, 1)
	ampere.l3cpus, ampere.die, ampere.noCacheID = nil, nil, true

	return []model{bergamo, turin, off, sapphire, granite, sierra, ultra, graviton, grace, ampere, power10(), smt8Parts()}
}

// power10: threads of a core are numbered side by side, core ids count threads, sockets and nodes have gaps, and caches have no ids.
func power10() model {
	const smt, cores = 8, 30
	threads := func(id int) string { return fmt.Sprintf("%d-%d", id/smt*smt, id/smt*smt+smt-1) }
	return model{
		name: "two 15-core POWER10 with eight threads", cpus: upTo(cores * smt),
		socket: func(id int) int { return id / (cores * smt / 2) * 8 }, core: func(id int) int { return id / smt * smt },
		node: func(id int) int { return id / (cores * smt / 2) * 8 }, threads: threads, l2cpus: threads, l3cpus: threads, noCacheID: true,
		files: map[string]string{"devices/system/cpu/smt/control": "on"},
	}
}

// smt8Parts is the same machine after ppc64_cpu --smt=2, and with a core taken out.
func smt8Parts() model {
	m := power10()
	m.name, m.cpus = "the same with two threads of eight on, and without its second core", nil
	for id := range 240 {
		if id%8 < 2 && id/8 != 1 {
			m.cpus = append(m.cpus, id)
		}
	}
	m.threads = func(id int) string { return fmt.Sprintf("%d-%d", id/8*8, id/8*8+1) }
	m.l2cpus, m.l3cpus = m.threads, m.threads
	return m
}
