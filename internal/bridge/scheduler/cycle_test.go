package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cycle are the methods that kube-scheduler calls in a scheduling cycle, or with its
// queue locked: one pod after the other waits for them.
var cycle = []string{
	"PreEnqueue", "EventsToRegister", "PreFilter", "PreFilterExtensions", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit", "Less",
}

// sources are the package's functions and methods by name, without tests.
func sources(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	funcs := map[string]*ast.FuncDecl{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				funcs[receiver(f)+f.Name.Name] = f
			}
		}
	}
	return funcs
}

// receiver returns "Plugin." for a method of Plugin, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// reach collects what a method of the plugin reaches: its own fields, and statements that wait.
func reach(funcs map[string]*ast.FuncDecl, name string, seen map[string]bool, found map[string]bool) {
	f := funcs[name]
	if f == nil || seen[name] {
		return
	}
	seen[name] = true
	self := ""
	if f.Recv != nil && len(f.Recv.List[0].Names) > 0 {
		self = f.Recv.List[0].Names[0].Name
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
			found["a goroutine or a channel in "+name] = true
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				found["a channel in "+name] = true
			}
		case *ast.Ident:
			reach(funcs, n.Name, seen, found)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == self && self != "" {
				method := receiver(f) + n.Sel.Name
				if funcs[method] == nil && receiver(f) == "Plugin." {
					found[n.Sel.Name] = true
				}
				reach(funcs, method, seen, found)
			}
		}
		return true
	})
}

// TestSchedulingCycleReadsTheTableOnly: no method of the cycle reaches anything of
// the plugin but its table, by whatever function of this package, and none waits for
// another goroutine. The table itself is plain memory behind a lock, see TestPluginCannotCall.
func TestSchedulingCycleReadsTheTableOnly(t *testing.T) {
	funcs := sources(t)
	looked := 0
	for _, name := range cycle {
		if funcs["Plugin."+name] == nil {
			continue
		}
		looked++
		found := map[string]bool{}
		reach(funcs, "Plugin."+name, map[string]bool{}, found)
		delete(found, "table")
		if len(found) > 0 {
			t.Errorf("%s reaches %v", name, slices.Sorted(maps.Keys(found)))
		}
	}
	if looked < 6 {
		t.Errorf("only %d methods of the cycle were found", looked)
	}
}

// TestReachFindsCalls: the test above can fail.
func TestReachFindsCalls(t *testing.T) {
	const text = `package p
func (p *Plugin) Filter() { p.help() }
func (p *Plugin) help() { helpMore(p); p.devices.Write(); go func() {}() }
func helpMore(p *Plugin) { <-p.done }
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	funcs := map[string]*ast.FuncDecl{}
	for _, d := range file.Decls {
		f := d.(*ast.FuncDecl)
		funcs[receiver(f)+f.Name.Name] = f
	}
	found := map[string]bool{}
	reach(funcs, "Plugin.Filter", map[string]bool{}, found)
	for _, want := range []string{"devices", "a goroutine or a channel in Plugin.help", "a channel in helpMore"} {
		if !found[want] {
			t.Errorf("%q wasn't found in %v", want, found)
		}
	}
}
