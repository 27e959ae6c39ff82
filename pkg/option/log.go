package option

import (
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger returns the logger of the process. It writes to standard error.
func (m *Manager) Logger() logr.Logger { return m.logger(os.Stderr) }

func (m *Manager) logger(out io.Writer) logr.Logger {
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime, c.EncodeLevel = zapcore.RFC3339TimeEncoder, level
	encoder := zapcore.NewJSONEncoder(c)
	if m.LogFormat == formatConsole {
		encoder = zapcore.NewConsoleEncoder(c)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), zapLevel(m.LogLevel))
	return logr.New(sink{zap.New(core)})
}

// level writes V(1) as debug, which collectors know, and V(4) as v4, which tells it apart.
func level(l zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
	if l < zapcore.DebugLevel {
		out.AppendString(fmt.Sprintf("v%d", -l))
		return
	}
	zapcore.LowercaseLevelEncoder(l, out)
}

// zapLevel turns logr's V into zap's levels, which grow the other way.
func zapLevel(v int) zapcore.Level { return zapcore.Level(-min(v, maxLogLevel)) } //nolint:gosec // It is bounded to 0..10.

// sink writes logr's records to zap. It is as little as the two need between them.
type sink struct{ zap *zap.Logger }

var _ logr.LogSink = sink{}

// Init implements logr.LogSink.
func (sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s sink) Enabled(v int) bool { return s.zap.Core().Enabled(zapLevel(v)) }

// Info implements logr.LogSink.
func (s sink) Info(v int, message string, pairs ...any) {
	if entry := s.zap.Check(zapLevel(v), message); entry != nil {
		entry.Write(fields(pairs)...)
	}
}

// Error implements logr.LogSink.
func (s sink) Error(err error, message string, pairs ...any) {
	s.zap.Error(message, append(fields(pairs), zap.Error(err))...)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(pairs ...any) logr.LogSink { return sink{s.zap.With(fields(pairs)...)} }

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink { return sink{s.zap.Named(name)} }

// fields pairs keys and values. A value may know its own form (references to objects do); a key without a value shows.
func fields(pairs []any) []zap.Field {
	out := make([]zap.Field, 0, len(pairs)/2+1)
	for i := 0; i < len(pairs); i += 2 {
		key := fmt.Sprint(pairs[i])
		if i+1 == len(pairs) {
			return append(out, zap.String(key, "(no value)"))
		}
		value := pairs[i+1]
		if own, ok := value.(logr.Marshaler); ok {
			value = own.MarshalLog()
		}
		out = append(out, zap.Any(key, value))
	}
	return out
}
