package conf

// CgroupConf is cgroup.conf.
type CgroupConf struct {
	// Plugin such as cgroup/v2 or autodetect.
	Plugin        string
	IgnoreSystemd bool
}

// Text returns the file.
func (c CgroupConf) Text() (string, error) {
	var d Document
	d.Set("CgroupPlugin", c.Plugin)
	if c.IgnoreSystemd {
		d.Set("IgnoreSystemd", "yes")
	}
	return d.Text()
}
