// Package calls makes the calls of a client and prints what each gave: a line of JSON per call.
package calls

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	waitMax = 20 * time.Second
	pause   = 50 * time.Millisecond
)

// Why a method is not called.
const (
	Security  = "needs security"
	NoRequest = "sends no request"
)

// Done is the result of a call that returns nothing but an error.
const Done = "done"

var output = json.NewEncoder(os.Stdout)

// Calls are those of one class of a client.
type Calls struct {
	class  string
	called map[string]bool
}

// New returns the calls of a class; the name begins each of its lines.
func New(class string) *Calls {
	return &Calls{class, map[string]bool{}}
}

// Call prints a result, or an error by its name in the protocol. The name is the method's, then "/"
// and a remark where a method is called more than once.
func (c *Calls) Call(name string, body func() (any, error)) {
	c.print(name, body)
}

// Do is Call for a body that returns nothing but an error.
func (c *Calls) Do(name string, body func() error) {
	c.print(name, func() (any, error) { return Done, body() })
}

// Until calls until the result is the expected one, or time is up, and prints the last: some
// changes take effect after they are answered.
func (c *Calls) Until(name string, expected any, body func() (any, error)) {
	c.print(name, func() (any, error) {
		end := time.Now().Add(waitMax)
		for {
			result, err := run(body)
			if err == nil && fmt.Sprint(result) == fmt.Sprint(expected) || time.Now().After(end) {
				return result, err
			}
			time.Sleep(pause)
		}
	})
}

// Print prints which methods of a class were left out, and why, and which are not called at all.
func (c *Calls) Print(class reflect.Type, leftOut map[string]string) {
	uncalled := []string{}
	for number := range class.NumMethod() {
		name := class.Method(number).Name
		if _, left := leftOut[name]; !left && !c.called[name] {
			uncalled = append(uncalled, name)
		}
	}
	slices.Sort(uncalled)
	c.line("left out", leftOut, nil)
	c.line("uncalled", uncalled, nil)
}

func (c *Calls) print(name string, body func() (any, error)) {
	method, _, _ := strings.Cut(name, "/")
	c.called[method] = true
	result, err := run(body)
	c.line(name, result, err)
}

// run calls; sarama says by an error, too, that there is none.
func run(body func() (any, error)) (any, error) {
	result, err := body()
	if errors.Is(err, sarama.ErrNoError) {
		err = nil
	}
	return result, err
}

func (c *Calls) line(name string, result any, err error) {
	line := map[string]any{"call": c.class + "." + name, "result": result}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s.%s: %v\n", c.class, name, err)
		line["result"] = map[string]string{"error": errorName(err)}
	}
	if failed := output.Encode(line); failed != nil {
		panic(failed)
	}
}

func errorName(err error) string {
	if code, is := errors.AsType[sarama.KError](err); is {
		err = kerr.ErrorForCode(int16(code))
	}
	if found, is := errors.AsType[*kerr.Error](err); is {
		return found.Message
	}
	return err.Error()
}

// Must ends the program if what the calls need can't be had.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
