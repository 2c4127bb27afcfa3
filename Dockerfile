# Serves a saved classifier; untried. Build: docker build -t gauge . ; run: docker run -p 8000:8000 -v $PWD/model:/model:ro gauge
FROM python:3.12-slim
COPY . /source
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu '/source[serve,onnx]' && rm -r /source
RUN useradd --no-create-home gauge
USER gauge
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
CMD ["gauge", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
