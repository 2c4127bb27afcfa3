# Serves a saved classifier. Build: docker build -t gauge . ; run: docker run -p 127.0.0.1:8000:8000 -v $PWD/model:/model:ro gauge
FROM python:3.12.11-slim-bookworm
WORKDIR /source
COPY serve.lock torch.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r serve.lock
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu -r torch.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --no-deps . && rm -r /source/*
RUN useradd --no-create-home gauge
USER gauge
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
CMD ["gauge", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
