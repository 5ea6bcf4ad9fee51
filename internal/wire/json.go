package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MarshalJSON is one line: the message with the field names of the API.
func MarshalJSON(m proto.Message) ([]byte, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer // protojson varies its white space on purpose
	if err := json.Compact(&line, b); err != nil {
		return nil, err
	}
	return line.Bytes(), nil
}

// UnmarshalJSON reads one JSON object into the message; an empty body is an
// empty message. The error is a [*tenure.Error] of code ErrInvalid that names
// the field that is unknown or of another type.
func UnmarshalJSON(body []byte, m proto.Message) error {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return invalid("body", "the JSON ends too early")
		}
		return invalid("body", "it is not JSON: "+valid(err.Error()))
	}
	if err := check(m.ProtoReflect().Descriptor(), "", v); err != nil {
		return err
	}
	if err := protojson.Unmarshal(body, m); err != nil {
		return invalid("body", clean(err))
	}
	return nil
}

// clean takes the prefix and the odd spaces out of protojson's message.
func clean(err error) string {
	s := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return valid(strings.TrimPrefix(s, "proto: "))
}

// check walks a decoded object beside the message's description, so that a
// refusal can name the field. protojson has the last word.
func check(d protoreflect.MessageDescriptor, path string, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return wrongType(path, "an object", v)
	}
	if path != "" {
		path += "."
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		field := d.Fields().ByTextName(name)
		if field == nil {
			field = d.Fields().ByJSONName(name)
		}
		if field == nil {
			return invalid(path+cmp.Or(shorten(name), `""`), "no such field: "+string(d.Name())+" has "+names(d))
		}
		if value == nil {
			continue // null is the same as leaving it out
		}
		if err := checkField(field, path+string(field.Name()), value); err != nil {
			return err
		}
	}
	return nil
}

func checkField(field protoreflect.FieldDescriptor, path string, v any) error {
	if !field.IsList() {
		return checkValue(field, path, v)
	}
	list, ok := v.([]any)
	if !ok {
		return wrongType(path, "a list", v)
	}
	for i, element := range list {
		if err := checkValue(field, fmt.Sprintf("%s[%d]", path, i), element); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(field protoreflect.FieldDescriptor, path string, v any) error {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return check(field.Message(), path, v)
	case protoreflect.StringKind:
		if _, ok := v.(string); !ok {
			return wrongType(path, "a string", v)
		}
	case protoreflect.BytesKind:
		if _, ok := v.(string); !ok {
			return wrongType(path, "a string in base64", v)
		}
	case protoreflect.BoolKind:
		if _, ok := v.(bool); !ok {
			return wrongType(path, "true or false", v)
		}
	default:
		return checkNumber(field, path, v)
	}
	return nil
}

// checkNumber knows the only numbers there are in requests: whole, without a
// sign, of 32 or 64 bits, written as a number or as a string.
func checkNumber(field protoreflect.FieldDescriptor, path string, v any) error {
	bits := 32
	if field.Kind() == protoreflect.Uint64Kind {
		bits = 64
	}
	text, ok := v.(string)
	if number, isNumber := v.(json.Number); isNumber {
		text, ok = number.String(), true
	}
	if !ok {
		return wrongType(path, "a whole number", v)
	}
	if _, err := strconv.ParseUint(text, 10, bits); err != nil {
		return invalid(path, fmt.Sprintf("%s is not a whole number from 0 to %d", shorten(text), uint64(math.MaxUint64)>>(64-bits)))
	}
	return nil
}

func wrongType(path, want string, v any) error {
	if path == "" {
		path = "body"
	}
	return invalid(path, fmt.Sprintf("it is %s, where %s belongs", kindOf(v), want))
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	}
	return "an object"
}

func names(d protoreflect.MessageDescriptor) string {
	var all []string
	for i := range d.Fields().Len() {
		all = append(all, string(d.Fields().Get(i).Name()))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
