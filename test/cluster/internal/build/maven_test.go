// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toolbox puts programs first in PATH, so that the test passes without Java.
func toolbox(t *testing.T, programs map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range programs {
		write(t, filepath.Join(dir, name), "#!/bin/sh\nset -e\n"+script)
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMavenModuleIsBuiltOnceForTheSameSource(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libc.so.6")
	write(t, library, "libc")
	ran := filepath.Join(t.TempDir(), "ran")
	toolbox(t, map[string]string{
		"mvn": "test -f pom.xml\ntest -f clients/library/src/main/Library.java\n! test -e clients/library/src/test\ntest -f test/original/src/main/Original.java\n" +
			"grep -q '<module>test/app</module><module>clients/library</module></modules>' pom.xml\necho >>" + ran + "\ncd test/app\nmkdir -p target/lib\ncp src/Main.java target/cart.jar\necho dep >target/lib/dep.jar\n",
		"jlink": `[ "$1" != --version ] || { echo 17; exit; }` + "\n" +
			`for last; do :; done; mkdir -p "$last/bin" "$last/lib/server"; cd "$last"; touch bin/java lib/libjava.so lib/server/libjvm.so; ln -s java bin/other` + "\n",
		"ldd": "printf '%s:\\n\\tlinux-vdso.so.1 (0x7)\\n\\tlibjvm.so => %s/jre/lib/server/libjvm.so (0x8)\\n\\tlibc.so.6 => " + library + " (0x9)\\n' \"$1\" \"$PWD\"\n",
	})
	b, _ := builder(t, "")
	checkout := t.TempDir()
	dir, need, read := filepath.Join(checkout, "test", "app"), filepath.Join(checkout, "clients", "library"), filepath.Join(checkout, "test", "original")
	module := MavenModule{Dir: dir, Needs: []string{need}, Reads: []string{read}}
	write(t, filepath.Join(dir, "pom.xml"), "<project/>")
	write(t, filepath.Join(dir, "src", "Main.java"), "one")
	write(t, filepath.Join(read, "pom.xml"), "<project/>")
	write(t, filepath.Join(read, "src", "main", "Original.java"), "one")
	write(t, filepath.Join(need, "pom.xml"), "<project/>")
	write(t, filepath.Join(need, "src", "main", "Library.java"), "one")
	write(t, filepath.Join(need, "src", "test", "LibraryTest.java"), "its own build runs it")

	build := func() (string, []string) {
		t.Helper()
		key, err := b.MavenKey(t.Context(), module)
		if err != nil {
			t.Fatal(err)
		}
		files, err := b.Maven(t.Context(), module, key)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			if !f.Dir {
				names = append(names, f.Name+f.Link)
			}
			if f.Link == "" && f.Mode&0o444 != 0o444 {
				t.Errorf("%s has mode %o: others cannot read it", f.Name, f.Mode)
			}
		}
		return key, names
	}
	first, names := build()
	want := []string{
		"app/cart.jar", "app/dep.jar", "jre/bin/java", "jre/bin/otherjava", "jre/lib/libjava.so", "jre/lib/server/libjvm.so",
		strings.TrimPrefix(library, "/"),
	}
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("the image holds\n%q, want\n%q", names, want)
	}
	if again, _ := build(); again != first {
		t.Error("the same source has another key")
	}
	write(t, filepath.Join(dir, "target", "x.jar"), "what a developer built is no source")
	build()
	if n := builds(t, ran); n != 1 {
		t.Errorf("the same source was built %d times", n)
	}
	write(t, filepath.Join(dir, "src", "Main.java"), "two")
	if other, _ := build(); other == first || builds(t, ran) != 2 {
		t.Errorf("another source was built %d times, its key is %s", builds(t, ran)-1, other)
	}
	write(t, filepath.Join(need, "src", "main", "Library.java"), "two")
	if build(); builds(t, ran) != 3 {
		t.Error("another source of what it depends on was not built")
	}
	write(t, filepath.Join(read, "src", "main", "Original.java"), "two")
	if build(); builds(t, ran) != 4 {
		t.Error("another source of what it reads was not built")
	}
}

func TestMavenModuleThatDoesNotBuildLeavesNothing(t *testing.T) {
	toolbox(t, map[string]string{"mvn": "echo 'cannot find symbol' >&2; exit 1\n", "jlink": "echo 17\n"})
	b, _ := builder(t, "")
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "pom.xml"), "<project/>")
	write(t, filepath.Join(dir, "src", "Main.java"), "one")
	_, err := b.Maven(t.Context(), MavenModule{Dir: dir}, "key")
	if err == nil || !strings.Contains(err.Error(), "cannot find symbol") {
		t.Errorf("got %v", err)
	}
	left, err := filepath.Glob(b.store.Bin("maven-app", "key"))
	if err != nil || len(left) != 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func builds(t *testing.T, ran string) int {
	t.Helper()
	data, err := os.ReadFile(ran)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

func TestSharedLibrariesAsLddNamesThem(t *testing.T) {
	t.Parallel()
	const output = "/x/jre/bin/java:\n\tlinux-vdso.so.1 (0x00007ffd)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)\n" +
		"\tlibmissing.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
	var got []string
	for _, found := range shared.FindAllStringSubmatch(output, -1) {
		got = append(got, found[1])
	}
	if fmt.Sprint(got) != "[/lib/x86_64-linux-gnu/libz.so.1 /lib64/ld-linux-x86-64.so.2]" {
		t.Errorf("got %v", got)
	}
}
