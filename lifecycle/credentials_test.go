// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"
)

// What is kept of an object has no credentials, and a cut does not hide that there are some.
func TestNothingIsKeptOfCredentials(t *testing.T) {
	const secret = "64_S3cretJobToken"
	long := strings.Repeat("a=https://git.example.com/x,", 70)
	for _, v := range []string{
		"https://ci:" + secret + "@git.example.com/shop", "https://ci.example.com/?job_token=" + secret,
		long + "b=https://" + secret + strings.Repeat("x", 200) + "@git.example.com/shop",
	} {
		kept := BoundAnnotations(map[string]string{"repository": v}, []string{"repository"})
		var r Revision
		r.SetImages([]Image{{Container: "c", Image: v, Digest: v}})
		if all := fmt.Sprint(kept, r); strings.Contains(all, secret[:9]) || len(kept) != 1 {
			t.Errorf("%s\nis kept as %s", v, all)
		}
	}
}
