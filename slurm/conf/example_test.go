package conf_test

import (
	"fmt"

	"github.com/slinky-hpc/slinky/slurm/conf"
)

func ExampleDocument() {
	var d conf.Document
	d.Set("ClusterName", "example")
	d.Line(conf.Pair{Key: "PartitionName", Value: "all"}, conf.Pair{Key: "Nodes", Value: "ALL"})
	text, err := d.Text()
	fmt.Print(text, err)
	// Output:
	// ClusterName=example
	// PartitionName=all Nodes=ALL
	// <nil>
}

func ExampleDocument_refused() {
	var d conf.Document
	d.Set("ClusterName", "example\nSlurmUser=root")
	_, err := d.Text()
	fmt.Println(err)
	// Output: ClusterName: value "example\nSlurmUser=root": has a line break
}

func ExampleParsePairs() {
	pairs, err := conf.ParsePairs(`MaxTime=1-0 AllowAccounts="a b"`)
	fmt.Println(pairs, err)
	// Output: [{MaxTime 1-0} {AllowAccounts a b}] <nil>
}

func ExampleSlurmConf() {
	c := conf.SlurmConf{
		ClusterName: "example", Controllers: []conf.ControllerHost{{Name: "head"}}, ControllerPort: 6817,
		Auth: conf.Auth{JwtKeyFile: "/etc/slurm/jwt.key"}, External: true,
	}
	text, err := c.Text()
	fmt.Print(text, err)
	// Output:
	// #
	// ### GENERAL ###
	// ClusterName=example
	// SlurmUser=slurm
	// SlurmctldHost=head
	// SlurmctldPort=6817
	// #
	// ### PLUGINS & PARAMETERS ###
	// AuthType=auth/slurm
	// CredType=cred/slurm
	// AuthAltTypes=auth/jwt
	// AuthAltParameters=jwt_key=/etc/slurm/jwt.key
	// AuthInfo=use_client_ids
	// #
	// ### ACCOUNTING ###
	// AccountingStorageType=accounting_storage/none
	// <nil>
}

func ExampleCgroupConf() {
	text, err := conf.CgroupConf{Plugin: "cgroup/v2", IgnoreSystemd: true}.Text()
	fmt.Print(text, err)
	// Output:
	// CgroupPlugin=cgroup/v2
	// IgnoreSystemd=yes
	// <nil>
}

func ExampleGresConf() {
	text, err := conf.GresConf{Lines: []conf.GresLine{
		{Nodes: []string{"gpu1", "gpu2"}, Name: "gpu", Type: "h200", File: "/dev/nvidia[0-3]", Cores: []int{0, 1, 2, 3}},
		{Nodes: []string{"login"}, AutoDetect: "off"},
	}}.Text()
	fmt.Print(text, err)
	// Output:
	// NodeName=gpu[1-2] Name=gpu Type=h200 File=/dev/nvidia[0-3] Cores=0-3
	// NodeName=login AutoDetect=off
	// <nil>
}

func ExampleTopologyConf() {
	text, err := conf.TopologyConf{Topologies: []conf.Topology{
		{Name: "fabric", Default: true, Tree: &conf.Tree{Switches: []conf.Switch{
			{Name: "top", Children: []string{"s1", "s2"}},
			{Name: "s1", Nodes: []string{"n1", "n2"}},
			{Name: "s2"},
		}}},
		{Name: "racks", Block: &conf.BlockTopology{Sizes: []int{2, 4}, Blocks: []conf.Block{{Name: "r1", Nodes: []string{"n1", "n2"}}}}},
		{Name: "plain", Flat: true},
	}}.Text()
	fmt.Print(text, err)
	// Output:
	// ---
	// - topology: "fabric"
	//   cluster_default: true
	//   tree:
	//     switches:
	//     - switch: "top"
	//       children: "s[1-2]"
	//     - switch: "s1"
	//       nodes: "n[1-2]"
	//     - switch: "s2"
	// - topology: "racks"
	//   cluster_default: false
	//   block:
	//     block_sizes: [2, 4]
	//     blocks:
	//     - block: "r1"
	//       nodes: "n[1-2]"
	// - topology: "plain"
	//   cluster_default: false
	//   flat: true
	// <nil>
}
