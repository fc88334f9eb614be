package house

import (
	"go/ast"
	"path"
	"slices"
	"testing"
)

// undocumented returns the exported names of the file without a comment. A group's comment speaks for its members, and methods of
// unexported types and those that everybody knows need none.
func undocumented(s source) (found []string) {
	if s.isTest() || s.ast.Name.Name == "main" {
		return nil
	}
	for _, decl := range s.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && needsComment(d) {
				found = append(found, s.at(d, "%s has no comment", d.Name.Name))
			}
		case *ast.GenDecl:
			if d.Doc == nil {
				found = append(found, undocumentedSpecs(s, d.Specs)...)
			}
		}
	}
	return found
}

func needsComment(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	return !slices.Contains([]string{"Error", "String", "Unwrap"}, f.Name.Name) && ast.IsExported(receiver(f.Recv.List[0].Type))
}

// receiver is the type's name, without pointer and type parameters.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func undocumentedSpecs(s source, specs []ast.Spec) (found []string) {
	for _, spec := range specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && spec.Doc == nil {
				found = append(found, s.at(spec, "%s has no comment", spec.Name.Name))
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && spec.Doc == nil && spec.Comment == nil {
					found = append(found, s.at(spec, "%s has no comment", name.Name))
				}
			}
		}
	}
	return found
}

func TestEveryPackageHasOneComment(t *testing.T) {
	t.Parallel()
	documented := map[string][]string{} // folder :: files with a package comment
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		dir := path.Dir(s.path)
		documented[dir] = documented[dir][:len(documented[dir]):len(documented[dir])]
		if s.ast.Doc != nil {
			documented[dir] = append(documented[dir], s.path)
		}
	}
	for dir, in := range documented {
		if len(in) != 1 {
			t.Errorf("%s: a package has exactly one package comment; it has %d: %v", dir, len(in), in)
		}
	}
}
