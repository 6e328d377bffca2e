package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswerNamesRevisionAndFailsAsOftenAsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		rate, chance float64
		want         int
	}{
		"never, when the rate is zero": {0, 0, http.StatusOK},
		"below the rate":               {0.5, 0.4, http.StatusInternalServerError},
		"above the rate":               {0.5, 0.6, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h := answer("app-00002", "two", c.rate, func() float64 { return c.chance })
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if w.Code != c.want {
				t.Errorf("got status %d, want %d", w.Code, c.want)
			}
			if got := w.Body.String(); !strings.Contains(got, "app-00002") || !strings.Contains(got, "two") {
				t.Errorf("the answer does not name its Revision and version: %s", got)
			}
		})
	}
}
