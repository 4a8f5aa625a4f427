package dev.pitwire.client;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;

/** Conversion between JSON and objects. Numbers are exact decimals. */
final class Json {
    private static final ObjectMapper MAPPER = JsonMapper.builder()
        .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
        .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
        .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
        .enable(JsonGenerator.Feature.WRITE_BIGDECIMAL_AS_PLAIN)
        .build();

    private Json() { }

    /**
     * Reads a price. Some orders have a word in its place, such as `market_price`: it reads as
     * null.
     */
    static final class PriceOrNull extends JsonDeserializer<BigDecimal> {
        @Override
        public BigDecimal deserialize(JsonParser parser, DeserializationContext context) throws IOException {
            return parser.currentToken().isNumeric() ? parser.getDecimalValue() : null;
        }
    }

    static JsonNode read(String text) throws JsonProcessingException {
        return MAPPER.readTree(text);
    }

    static String write(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("a parameter cannot be written as JSON: " + error.getMessage(), error);
        }
    }

    static <T> T convert(JsonNode node, Class<T> type) {
        try {
            return MAPPER.treeToValue(node, type);
        } catch (JsonProcessingException error) {
            throw new PitwireException("the venue sent an unexpected " + type.getSimpleName() + ": "
                + error.getOriginalMessage(), "connect to a venue of the JSON-RPC dialect");
        }
    }

    static <T> List<T> list(JsonNode array, Class<T> type) {
        var values = new ArrayList<T>();
        array.forEach(node -> values.add(convert(node, type)));
        return values;
    }
}
